// The text of /proc/PID/cgroup, for all that look for a process's control groups.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop {

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

}  // namespace gpusnoop
