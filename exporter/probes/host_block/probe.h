// Requests of followed processes to block devices.
#pragma once

#include <cstdint>
#include <string>

#include "bpf/host_block.h"
#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::probes {

using HostBlockConfig = HostSwitch<"block", false>;

extern const ProbeKind host_block_kind;

}  // namespace gpusnoop::probes

namespace gpusnoop::trace {

// `trace block`: each request of followed processes to a block device.
extern const Kind block_trace;

// `device` is its name, and `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const block_record &record, const std::string &device,
                             const probes::ProcessIdentity &process, std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
