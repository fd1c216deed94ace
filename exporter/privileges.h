// What the exporter may do on its machine: which capabilities it uses, and giving up the others.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "exporter/base/capabilities.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/kernel/features.h"

namespace gpusnoop {

struct Privilege {
    Capability capability;
    std::string_view lets;   // what it is for: "load programs into the kernel"
    std::string_view costs;  // what does not work without it
    bool is_required;        // nothing works without it
};

// In the order of their importance.
[[nodiscard]] std::span<const Privilege> privileges();

// Will functions be attached to by perf events, which takes CAP_SYS_ADMIN?
[[nodiscard]] bool attaches_by_perf(const config::Config &config, const kernel::Features &features);

// What this configuration uses on this kernel, for as long as the exporter runs.
[[nodiscard]] std::vector<Capability> needed_capabilities(const config::Config &config,
                                                          const kernel::Features &features);

// Gives up the others, unless the configuration says to keep all, and logs what it is left with.
// Before any thread is started.
[[nodiscard]] Result<> drop_privileges(const config::Config &config,
                                       const kernel::Features &features);

}  // namespace gpusnoop
