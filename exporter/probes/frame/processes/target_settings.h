// The block `targets:` of the configuration: the processes that kernel-side probes trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct TargetsConfig {
    bool gpu_processes = true;
    bool all_processes = false;
    std::vector<std::uint32_t> pids;
    std::vector<std::uint32_t> parents;   // children of these; only a trace sets it
    std::vector<std::string> comms;       // globs
    std::vector<std::string> containers;  // beginnings of ids
    bool operator==(const TargetsConfig &) const = default;
};

// Whether it names processes besides GPU processes.
[[nodiscard]] bool names_any(const TargetsConfig &targets);

void read_targets(config::Section targets, config::Config &config);

}  // namespace gpusnoop::probes
