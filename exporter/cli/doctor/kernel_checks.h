// Examines the kernel's features.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/cli/doctor/finding.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"

namespace gpusnoop::doctor {

// The exporter's own features: BTF, the ring buffer, and the attach modes, of which one is enough.
[[nodiscard]] std::vector<Finding> judge_features(const ebpf::Features &features,
                                                  const config::Config &config);

// From the file /sys/kernel/security/lockdown: "none [integrity] confidentiality". Empty: the file
// does not exist or cannot be read.
[[nodiscard]] Finding judge_lockdown(const std::optional<std::string> &file);

// From the two kernel settings' files.
[[nodiscard]] Finding judge_unprivileged_bpf(const std::optional<std::string> &file, bool has_bpf);
[[nodiscard]] Finding judge_perf_paranoid(const std::optional<std::string> &file, bool has_perfmon,
                                          bool has_admin);

// All of the above for this kernel, and the needs of the kernel-side probes: kprobes, tracepoints,
// protection from preemption, and what the host probes need (probe_checks.h).
[[nodiscard]] std::vector<Finding> examine_kernel(const ebpf::Features &features,
                                                  const config::Config &config);

}  // namespace gpusnoop::doctor
