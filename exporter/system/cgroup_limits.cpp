#include "exporter/system/cgroup_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "exporter/base/log.h"
#include "exporter/base/read_file.h"
#include "exporter/base/text/text.h"

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

namespace {

// Version 1 shows a number about as large if there is no limit.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;

// "max" and "-1" are none.
std::optional<std::uint64_t> number_in(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} ? std::optional(value) : std::nullopt;
}

std::optional<std::uint64_t> number_of_file(const std::string &path) {
    const auto text = read_start(path);
    return text ? number_in(*text) : std::nullopt;
}

// The directories of a group and of those around it, the innermost first. In a container, the path
// can be one outside of what is mounted: then only the outermost is there.
std::vector<std::string> directories(const std::string &root, std::string_view path) {
    std::vector<std::string> all;
    while (path.size() > 1) {
        if (!leads_out(path)) {
            all.push_back(root + std::string(path));
        }
        path = path.substr(0, path.rfind('/'));
    }
    all.push_back(root);
    return all;
}

template <typename Number>
void lower(std::optional<Number> &limit, std::optional<Number> other) {
    if (other) {
        limit = std::min(limit.value_or(*other), *other);
    }
}

std::optional<double> share(std::optional<std::uint64_t> quota,
                            std::optional<std::uint64_t> period) {
    return quota && period && *period > 0
               ? std::optional(static_cast<double>(*quota) / static_cast<double>(*period))
               : std::nullopt;
}

// "QUOTA PERIOD"
std::optional<double> cpus_of(const std::string &path) {
    const std::string text = read_start(path).value_or("");
    const std::size_t space = text.find(' ');
    return space == std::string::npos
               ? std::nullopt
               : share(number_in(text), number_in(std::string_view(text).substr(space + 1)));
}

void read_v2(CgroupLimits &limits, const std::string &root, std::string_view path) {
    for (const std::string &directory : directories(root, path)) {
        lower(limits.memory_bytes, number_of_file(directory + "/memory.max"));
        lower(limits.cpus, cpus_of(directory + "/cpu.max"));
    }
}

void read_v1_memory(CgroupLimits &limits, const std::string &root, std::string_view path) {
    for (const std::string &directory : directories(root, path)) {
        const auto bytes = number_of_file(directory + "/memory.limit_in_bytes");
        lower(limits.memory_bytes, bytes.value_or(no_limit) < no_limit ? bytes : std::nullopt);
    }
}

void read_v1_cpu(CgroupLimits &limits, const std::string &root, std::string_view path) {
    for (const std::string &directory : directories(root, path)) {
        lower(limits.cpus, share(number_of_file(directory + "/cpu.cfs_quota_us"),
                                 number_of_file(directory + "/cpu.cfs_period_us")));
    }
}

}  // namespace

CgroupLimits cgroup_limits(std::string_view groups, const std::string &mount) {
    CgroupLimits limits;
    for (const CgroupLine &line : cgroup_lines(groups)) {
        const std::string root = mount + "/" + std::string(line.controllers);
        if (line.is_v2()) {
            read_v2(limits, mount, line.path);
            read_v2(limits, mount + "/unified", line.path);
        }
        if (line.has("memory")) {
            read_v1_memory(limits, root, line.path);
        }
        if (line.has("cpu")) {
            read_v1_cpu(limits, root, line.path);
        }
    }
    return limits;
}

std::string limits_below_need(const CgroupLimits &limits) {
    std::string below;
    if (limits.memory_bytes && *limits.memory_bytes < needed_memory_bytes) {
        below = fmt::format("memory: {} MiB, it needs {} MiB", *limits.memory_bytes >> 20,
                            needed_memory_bytes >> 20);
    }
    if (limits.cpus && *limits.cpus < needed_cpus) {
        below += fmt::format("{}CPU time: {:.3g} of one CPU, it needs {:.3g}",
                             below.empty() ? "" : "; ", *limits.cpus, needed_cpus);
    }
    return below;
}

void warn_of_low_limits() {
    const std::string below =
        limits_below_need(cgroup_limits(read_start("/proc/self/cgroup").value_or("")));
    if (!below.empty()) {
        log::warn(
            "the cgroup limits are below what the exporter needs: it may be killed, or become "
            "ready late or never",
            {{"limits", below}});
    }
}

}  // namespace gpusnoop
