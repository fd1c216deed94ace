// The list of probes.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

// In the order in which those of StartTurn::in_order are started: the CUDA probe comes first, as it
// has the table of GPU processes that other probes read.
[[nodiscard]] std::span<const ProbeKind *const> all_probes();

// The processes that all probes trace.
[[nodiscard]] TracedProcessesPtr make_traced_processes(const config::Config &config);

// The probes that the configuration enables, not started.
std::vector<std::unique_ptr<Probe>> make_probes(const config::Config &config,
                                                const ebpf::Features &features,
                                                const Shared &shared);

// Starts all of them, each in its turn. The results are in the order of the probes. Throws what
// a start() throws, such as std::system_error where it may have no thread.
[[nodiscard]] std::vector<Result<>> start_probes(std::span<const std::unique_ptr<Probe>> probes);

// Detaches all of them side by side: for each the kernel waits until no CPU can still run its
// programs.
void end_probes(std::vector<std::unique_ptr<Probe>> probes);

// The state of every probe there is, in the order of all_probes(): of these, and of the others that
// they are disabled.
[[nodiscard]] std::vector<Health> health_of(const std::vector<std::unique_ptr<Probe>> &probes);

// The blocks of the configuration that probes read: their own, and the blocks of host, targets,
// profile, sinks and histograms.
[[nodiscard]] std::vector<config::ReadBlock> setting_blocks();

// Logs which events sinks want that the probes which are switched on do not find.
void warn_of_missing_events(const config::Config &config);

// The shortest drain interval that any probe's settings have.
[[nodiscard]] std::chrono::milliseconds drain_interval(const config::Config &config);

// How the probes that are switched on attach to functions, each way once, best first.
[[nodiscard]] std::vector<ebpf::AttachMode> attach_modes_in_use(const config::Config &config,
                                                                const ebpf::Features &features);

// Will the exporter attach to functions by perf events, which needs CAP_SYS_ADMIN?
[[nodiscard]] bool attaches_by_perf(const config::Config &config, const ebpf::Features &features);

// Does a probe attach to tracepoints that may be a module's? The kernel gives modules' types only
// to CAP_SYS_ADMIN.
[[nodiscard]] bool attaches_to_modules(const config::Config &config);

// Will a probe open /dev/kmsg? That may need CAP_SYSLOG.
[[nodiscard]] bool reads_kernel_log(const config::Config &config);

// Does a probe count followed processes?
[[nodiscard]] bool follows_processes(const config::Config &config);

// The full names of all families, for the configuration to check `series.budgets` against.
[[nodiscard]] std::vector<std::string> budgeted_families();

// The names of the pages of the API.
[[nodiscard]] std::vector<std::string_view> api_page_names();

// The full names of all histograms.
[[nodiscard]] const std::vector<std::string> &all_histograms();

}  // namespace gpusnoop::probes
