// What the control groups of this process allow it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnoop {

struct CgroupLimits {
    std::optional<std::uint64_t> memory_bytes;  // nothing: no limit that is seen
    std::optional<double> cpus;                 // CPU time for each second

    friend bool operator==(const CgroupLimits &, const CgroupLimits &) = default;
};

// The least of the group and those around it, in version 1 and 2. `groups` is the text of
// /proc/self/cgroup; `mount` is where the groups are mounted.
[[nodiscard]] CgroupLimits cgroup_limits(std::string_view groups,
                                         const std::string &mount = "/sys/fs/cgroup");

// What the exporter needs with the default configuration and few programs: docs/install.md.
inline constexpr std::uint64_t needed_memory_bytes = std::uint64_t{128} << 20;
inline constexpr double needed_cpus = 0.1;

// Which limits are below that, with what is needed, such as "memory: 64 MiB, it needs 128 MiB".
// Empty: none.
[[nodiscard]] std::string limits_below_need(const CgroupLimits &limits);

// Logs them for this process.
void warn_of_low_limits();

}  // namespace gpusnoop
