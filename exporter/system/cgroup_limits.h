// What the control groups of this process allow it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop {

// The text of /proc/PID/cgroup, for all that look for a process's control groups.

// One hierarchy. The path begins with a slash, and may contain colons.
struct CgroupLine {
    std::string_view controllers;  // "cpu,cpuacct"; empty: version 2
    std::string_view path;

    [[nodiscard]] bool is_v2() const { return controllers.empty(); }
    [[nodiscard]] bool has(std::string_view controller) const;
};

// The views are of `text`. Lines of another form are left out.
[[nodiscard]] std::vector<CgroupLine> cgroup_lines(std::string_view text);

// The names of the path's directories, the outermost first.
[[nodiscard]] std::vector<std::string_view> cgroup_directories(std::string_view path);

// Does the path lead out of the cgroup namespace that the exporter is in? The kernel then begins it
// with "..", which no directory has as its name.
[[nodiscard]] bool leads_out(std::string_view path);

// Where the group is below the place at which its hierarchy is mounted. Empty: it cannot be seen
// from here, or it is the uppermost, which is everything on the node.
[[nodiscard]] std::string cgroup_directory(const std::string &mount, std::string_view path);

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
