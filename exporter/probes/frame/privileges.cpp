#include "exporter/probes/frame/privileges.h"

#include <linux/capability.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "exporter/base/log.h"
#include "exporter/base/read_file.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/sinks/target.h"
#include "exporter/system/capabilities.h"
#include "exporter/system/listen_address.h"
#include "exporter/system/priority.h"

namespace gpusnoop {

namespace {

constexpr std::array<Privilege, 5> all_privileges = {{
    {CAP_BPF, "load programs into the kernel", "nothing can be traced", true},
    {CAP_PERFMON, "attach to functions, and hear of new mappings", "nothing can be traced", true},
    {CAP_SYS_PTRACE, "look into other processes",
     "libraries in containers are not opened, and processes of other users have no executable, "
     "kernel "
     "names and call sites",
     false},
    {CAP_DAC_READ_SEARCH, "read files below directories that are closed to this user",
     "libraries below such directories (homes, layers of images) are not opened, nor is tracefs",
     false},
    {CAP_CHECKPOINT_RESTORE, "open mapped files that were deleted or replaced",
     "libraries that an upgrade replaced are not attached to until their programs are restarted",
     false},
}};

constexpr int first_unprivileged_port = 1024;

bool has_privileged_port(const config::Config &config) {
    return std::ranges::any_of(config.web.listen_addresses, [](const std::string &text) {
        const auto address = parse_listen_address(text);
        return address && address->port > 0 && address->port < first_unprivileged_port;
    });
}

// Receivers and directories of sinks may belong to another user, and connections are made again
// later.
bool writes_to_paths(const config::Config &config) {
    return std::ranges::any_of(config.of<sinks::SinkConfigs>(), [](const auto &sink) {
        return sink.target.type != sinks::TargetType::tcp;
    });
}

}  // namespace

std::span<const Privilege> privileges() {
    return all_privileges;
}

bool perf_events_take_admin() {
    // Linux itself uses values up to 2.
    constexpr long highest_of_linux = 2;
    const auto text = read_start("/proc/sys/kernel/perf_event_paranoid");
    return text && std::strtol(text->c_str(), nullptr, 10) > highest_of_linux;
}

std::vector<Capability> needed_capabilities(const config::Config &config,
                                            const ebpf::Features &features,
                                            bool perf_events_take_admin) {
    std::vector<Capability> needed;
    for (const Privilege &privilege : all_privileges) {
        needed.push_back(privilege.capability);
    }
    // On kernels without CAP_BPF and CAP_PERFMON, CAP_SYS_ADMIN includes them.
    const bool stands_for_others = !holds_capability(CAP_BPF) || !holds_capability(CAP_PERFMON);
    if (probes::attaches_by_perf(config, features) || perf_events_take_admin ||
        probes::attaches_to_modules(config) || stands_for_others) {
        needed.push_back(CAP_SYS_ADMIN);
    }
    if (probes::reads_kernel_log(config)) {
        needed.push_back(CAP_SYSLOG);
    }
    if (writes_to_paths(config)) {
        needed.push_back(CAP_DAC_OVERRIDE);
    }
    if (has_privileged_port(config)) {
        needed.push_back(CAP_NET_BIND_SERVICE);
    }
    return needed;
}

Result<> drop_privileges(const config::Config &config, const ebpf::Features &features) {
    if (config.capabilities.keep == config::Config::Capabilities::Keep::all) {
        log::info("keeping all capabilities, as configured");
        return {};
    }
    const auto needed = needed_capabilities(config, features, perf_events_take_admin());
    allow_niceness(counting_niceness);
    const auto given_up = keep_capabilities(needed);
    if (!given_up) {
        return tl::unexpected(given_up.error());
    }
    std::vector<Capability> kept;
    std::ranges::copy_if(needed, std::back_inserter(kept), holds_capability);
    log::info("capabilities", {{"kept", capability_names(kept)}, {"given_up", given_up->size()}});
    for (const Privilege &privilege : all_privileges) {
        if (!has_capability(privilege.capability)) {
            log::warn("a capability is missing",
                      {{"capability", capability_name(privilege.capability)},
                       {"costs", privilege.costs}});
        }
    }
    if (const auto refused = refuse_system_calls(); !refused) {
        log::warn("cannot install the system call filter: the exporter runs without it",
                  {{"reason", refused.error().message}});
    }
    return {};
}

}  // namespace gpusnoop
