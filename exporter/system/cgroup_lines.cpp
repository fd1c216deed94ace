#include "exporter/system/cgroup_lines.h"

#include <algorithm>

#include "exporter/base/text/words.h"

namespace gpusnoop {

bool CgroupLine::has(std::string_view controller) const {
    std::string_view rest = controllers;
    while (!rest.empty()) {
        if (take_until(rest, ',') == controller) {
            return true;
        }
    }
    return false;
}

// Lines are NUMBER:CONTROLLERS:PATH.
std::vector<CgroupLine> cgroup_lines(std::string_view text) {
    std::vector<CgroupLine> lines;
    while (!text.empty()) {
        std::string_view line = take_until(text, '\n');
        take_until(line, ':');
        const std::string_view controllers = take_until(line, ':');
        if (line.starts_with('/')) {
            lines.push_back({controllers, line});
        }
    }
    return lines;
}

std::vector<std::string_view> cgroup_directories(std::string_view path) {
    std::vector<std::string_view> names;
    while (!path.empty()) {
        if (const std::string_view name = take_until(path, '/'); !name.empty()) {
            names.push_back(name);
        }
    }
    return names;
}

bool leads_out(std::string_view path) {
    const auto names = cgroup_directories(path);
    return std::ranges::find(names, "..") != names.end();
}

std::string cgroup_directory(const std::string &mount, std::string_view path) {
    return path.size() < 2 || leads_out(path) ? std::string() : mount + std::string(path);
}

}  // namespace gpusnoop
