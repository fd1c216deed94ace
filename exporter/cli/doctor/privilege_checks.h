// Examines the privileges of this process.
#pragma once

#include <functional>
#include <vector>

#include "exporter/cli/doctor/finding.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/system/capabilities.h"

namespace gpusnoop::doctor {

// A line for each capability that this configuration can use.
[[nodiscard]] std::vector<Finding> judge_capabilities(const std::function<bool(Capability)> &has,
                                                      bool attaches_by_perf);

// The effect of the limit of locked memory, in bytes; unlimited is the largest number. Since Linux
// 5.11, BPF memory counts towards a cgroup: `counts_by_limit` is false there.
[[nodiscard]] Finding judge_memlock(std::uint64_t limit, std::uint64_t wanted,
                                    bool counts_by_limit);

// The limit of open descriptors, and how many the exporter may need.
[[nodiscard]] Finding judge_files(std::uint64_t limit, bool attaches_by_perf);

// Whether the counting thread may get the CPU before others.
[[nodiscard]] Finding judge_priority(bool is_preferred);

[[nodiscard]] std::vector<Finding> examine_privileges(const ebpf::Features &features,
                                                      const config::Config &config);

}  // namespace gpusnoop::doctor
