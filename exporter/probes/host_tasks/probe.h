// CPU time, waits, faults, bytes and memory of followed processes, as the kernel keeps them.
#pragma once

#include <string_view>

#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

// The part `tasks:` of the block `host:` of the configuration.
struct HostTasksConfig {
    static constexpr std::string_view part = "tasks";
    bool enabled = true;
    bool operator==(const HostTasksConfig &) const = default;
};

extern const ProbeKind host_tasks_kind;

}  // namespace gpusnoop::probes
