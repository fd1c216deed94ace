// The block `targets:` of the configuration: the processes that the probes of kernel events trace.
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
    std::vector<std::uint32_t> parents;   // what these started; of a trace, no key sets it
    std::vector<std::string> comms;       // globs
    std::vector<std::string> containers;  // beginnings of ids
    bool operator==(const TargetsConfig &) const = default;
};

void read_targets(config::Section targets, config::Config &config);

}  // namespace gpusnoop::probes
