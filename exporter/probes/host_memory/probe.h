// Stalls of followed processes for lack of memory.
#pragma once

#include <string_view>

#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

// The part `memory:` of the block `host:` of the configuration.
struct HostMemoryConfig {
    static constexpr std::string_view part = "memory";
    bool enabled = true;
    bool operator==(const HostMemoryConfig &) const = default;
};

extern const ProbeKind host_memory_kind;

}  // namespace gpusnoop::probes
