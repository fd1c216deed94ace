// What this process may do.
#pragma once

#include <functional>
#include <vector>

#include "exporter/cli/doctor/finding.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/system/capabilities.h"

namespace gpusnoop::doctor {

// A line for each capability that this configuration has a use for.
[[nodiscard]] std::vector<Finding> judge_capabilities(const std::function<bool(Capability)> &has,
                                                      bool attaches_by_perf);

// What the limit of locked memory means, in bytes; what is unlimited is the largest number. Since
// Linux 5.11 the memory of BPF counts towards a cgroup: `counts_by_limit` is false there.
[[nodiscard]] Finding judge_memlock(std::uint64_t limit, std::uint64_t wanted,
                                    bool counts_by_limit);

// How many descriptors this process may open, and how many it may take.
[[nodiscard]] Finding judge_files(std::uint64_t limit, bool attaches_by_perf);

// May the thread that counts get the CPU before others?
[[nodiscard]] Finding judge_priority(bool is_preferred);

[[nodiscard]] std::vector<Finding> examine_privileges(const ebpf::Features &features,
                                                      const config::Config &config);

}  // namespace gpusnoop::doctor
