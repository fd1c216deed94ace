// What the exporter may do on its machine: which capabilities it uses, and giving up the others,
// and system calls that it never makes.
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
    std::string_view lets;   // what it is for: "load programs into the kernel"
    std::string_view costs;  // what does not work without it
    bool is_required;        // nothing works without it
};

// In the order of their importance.
[[nodiscard]] std::span<const Privilege> privileges();

// Do perf events of any kind (new mappings, kprobes) take CAP_SYS_ADMIN? So it is with Debian's
// kernels where kernel.perf_event_paranoid is above 2, which it is by default (their patch
// security-perf-allow-further-restriction-of-perf_event_open).
[[nodiscard]] bool perf_events_take_admin();

// What this configuration uses on this kernel, for as long as the exporter runs.
[[nodiscard]] std::vector<Capability> needed_capabilities(const config::Config &config,
                                                          const ebpf::Features &features,
                                                          bool perf_events_take_admin);

// Gives up the others and refused_system_calls(), unless the configuration says to keep all, and
// logs what it is left with.
// Before any thread is started.
[[nodiscard]] Result<> drop_privileges(const config::Config &config,
                                       const ebpf::Features &features);

}  // namespace gpusnoop
