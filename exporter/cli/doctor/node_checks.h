// What is on this node: processes, libraries, GPUs, and a place for the exporter itself.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "exporter/cli/doctor/finding.h"
#include "exporter/config/config.h"
#include "exporter/discovery/gpus/gpus.h"

namespace gpusnoop::doctor {

// A file that the probe `cuda` would attach to.
struct FoundLibrary {
    std::string name;
    std::set<std::uint32_t> users;  // processes
    std::string problem;            // why it cannot be opened; empty if it can
    std::string path = {};          // as a process that uses it has it; empty if it is not known
};

[[nodiscard]] std::vector<Finding> judge_libraries(const std::vector<FoundLibrary> &libraries);
[[nodiscard]] Finding judge_gpus(const std::vector<discovery::Gpu> &gpus, const std::string &where);

[[nodiscard]] std::vector<Finding> examine_node(const config::Config &config);

}  // namespace gpusnoop::doctor
