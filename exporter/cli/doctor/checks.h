// Examines the kernel, this node, the probes, and what the exporter may do.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/cli/doctor/doctor.h"
#include "exporter/config/config.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/ebpf/features.h"
#include "exporter/ebpf/mappings/mapping_list.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/system/capabilities.h"

namespace gpusnoop::doctor {

// Examines the kernel's features.

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
// protection from preemption, and what the host probes need.
[[nodiscard]] std::vector<Finding> examine_kernel(const ebpf::Features &features,
                                                  const config::Config &config);

// Examines this node: processes, libraries, GPUs, and whether the exporter itself can run.

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

// Examines the privileges of this process.

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

// Examines what single probes need of the kernel.

// For each probe with such needs, whether they are met. What a probe lacks that is off costs
// nothing.
[[nodiscard]] std::vector<Finding> judge_probes(const probes::KernelView &kernel,
                                                const config::Config &config);

// The same of this machine.
[[nodiscard]] std::vector<Finding> examine_probes(const config::Config &config);

// Examines the libraries of CUDA processes that no group of functions names.

// One for each file that exports functions of a group and has another name than the group's
// libraries: the exporter does not attach to it. Of the processes that map a library of CUDA.
[[nodiscard]] std::vector<Finding> examine_unnamed(const std::vector<ebpf::Mapping> &mappings,
                                                   ebpf::MappingList &list,
                                                   const config::Config &config);

}  // namespace gpusnoop::doctor
