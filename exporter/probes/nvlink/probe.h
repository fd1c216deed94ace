// Calls of three helpers inside the NVIDIA driver. They are not NVLink traffic: the driver uses
// them when it trains links and answers ioctls.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "bpf/nvlink.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/nvlink/aggregator.h"

namespace gpusnoop::probes {

// The function for an enum nvlink_op.
[[nodiscard]] std::string_view nvlink_function(std::uint32_t op);

extern const ProbeKind nvlink_kind;

// For a trace: drain() passes on each call, and counts nothing.
std::unique_ptr<Probe> make_nvlink_tracer(const config::Config &config, OnHelper on_call);

}  // namespace gpusnoop::probes
