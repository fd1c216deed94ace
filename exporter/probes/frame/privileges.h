// The privileges of the exporter: the capabilities that it uses, and the capabilities and system
// calls that it gives up.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/system/capabilities.h"

namespace gpusnoop {

struct Privilege {
    Capability capability;
    std::string_view lets;   // its purpose: "load programs into the kernel"
    std::string_view costs;  // the features that need it
    bool is_required;        // nothing works without it
};

// In the order of their importance.
[[nodiscard]] std::span<const Privilege> privileges();

// Do perf events of any kind (samples, kprobes without links) need CAP_SYS_ADMIN? They do on
// Debian's kernels if kernel.perf_event_paranoid is above 2, which is the default there (their
// patch security-perf-allow-further-restriction-of-perf_event_open).
[[nodiscard]] bool perf_events_take_admin();

// The capabilities that this configuration uses on this kernel while the exporter runs.
[[nodiscard]] std::vector<Capability> needed_capabilities(const config::Config &config,
                                                          const ebpf::Features &features,
                                                          bool perf_events_take_admin);

// Drops all other capabilities and refuses system calls, unless the configuration says to keep
// all. Logs the capabilities that remain. Before any thread is started.
[[nodiscard]] Result<> drop_privileges(const config::Config &config,
                                       const ebpf::Features &features);

}  // namespace gpusnoop
