// What the kernel offers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/cli/doctor/finding.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"

namespace gpusnoop::doctor {

// What the features of the exporter itself mean: BTF, the ring buffer, and the ways to attach, of
// which one is enough.
[[nodiscard]] std::vector<Finding> judge_features(const ebpf::Features &features,
                                                  const config::Config &config);

// Of the file /sys/kernel/security/lockdown: "none [integrity] confidentiality". Nothing: there is
// none, or it cannot be read.
[[nodiscard]] Finding judge_lockdown(const std::optional<std::string> &file);

// Of the two settings of the kernel, as their files have them.
[[nodiscard]] Finding judge_unprivileged_bpf(const std::optional<std::string> &file, bool has_bpf);
[[nodiscard]] Finding judge_perf_paranoid(const std::optional<std::string> &file, bool has_perfmon,
                                          bool has_admin);

// All of the above of this kernel, and what the kernel-side probes need: kprobes,
// tracepoints, protection from preemption.
[[nodiscard]] std::vector<Finding> examine_kernel(const ebpf::Features &features,
                                                  const config::Config &config);

}  // namespace gpusnoop::doctor
