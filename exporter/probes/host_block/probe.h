// Requests of followed processes to block devices.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "bpf/host_block.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// The part `block:` of the block `host:` of the configuration.
struct HostBlockConfig {
    static constexpr std::string_view part = "block";
    bool enabled = false;
    bool operator==(const HostBlockConfig &) const = default;
};

extern const ProbeKind host_block_kind;

// For a trace: drain() passes on each request that takes `min_duration`, with its device's name.
struct BlockTrace {
    std::chrono::nanoseconds min_duration{};
    std::function<void(const block_record &, const std::string &device, const ProcessIdentity &)>
        on_request;
};
std::unique_ptr<Probe> make_block_tracer(const config::Config &config,
                                         const TracedProcessesPtr &traced, BlockTrace trace);

}  // namespace gpusnoop::probes
