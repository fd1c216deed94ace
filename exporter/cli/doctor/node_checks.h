// Examines this node: processes, libraries, GPUs, and whether the exporter itself can run.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "exporter/cli/doctor/finding.h"
#include "exporter/config/config.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/cuda/attach/entry_cost.h"

namespace gpusnoop::doctor {

// A file that the probe `cuda` would attach to.
struct FoundLibrary {
    std::string name;
    std::set<std::uint32_t> users;  // processes
    std::string problem;            // why it cannot be opened; empty if it can
    std::string path = {};          // as in a process that uses it; empty if not known
    probes::EntryCost cost = {};
    std::string locked = {};  // by which process: it cannot be attached to now; empty if it can
};

[[nodiscard]] std::vector<Finding> judge_libraries(const std::vector<FoundLibrary> &libraries);
[[nodiscard]] Finding judge_gpus(const std::vector<discovery::Gpu> &gpus, const std::string &where);

[[nodiscard]] std::vector<Finding> examine_node(const config::Config &config);

}  // namespace gpusnoop::doctor
