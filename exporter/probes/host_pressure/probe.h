// What the cgroups of followed processes lack, and idle states of the node.
#pragma once

#include <string_view>

#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

// The part `pressure:` of the block `host:` of the configuration.
struct HostPressureConfig {
    static constexpr std::string_view part = "pressure";
    bool enabled = true;
    bool operator==(const HostPressureConfig &) const = default;
};

extern const ProbeKind host_pressure_kind;

}  // namespace gpusnoop::probes
