#include "exporter/discovery/gpus/gpu_evidence.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "exporter/base/read_file.h"

namespace gpusnoop::discovery {

namespace {

constexpr std::size_t max_text_bytes = 64 * 1024;
constexpr std::size_t max_descriptors = 4096;
constexpr int max_minor = 4096;
constexpr std::string_view nvidia_major = "195";

std::optional<int> minor_in(std::string_view text) {
    int minor = -1;
    const char *const last = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), last, minor);
    const bool is_whole = error == std::errc{} && at == last && minor >= 0 && minor < max_minor;
    return is_whole ? std::optional(minor) : std::nullopt;
}

// Takes the text up to `separator`, and the separator, off the front of `rest`.
std::string_view take(std::string_view &rest, char separator) {
    const std::string_view part = rest.substr(0, rest.find(separator));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    return part;
}

// The path in the hierarchy of devices, of a line like 4:devices:/slurm/job_1.
std::optional<std::string> devices_cgroup(std::string_view text) {
    while (!text.empty()) {
        std::string_view line = take(text, '\n');
        take(line, ':');
        std::string_view controllers = take(line, ':');
        while (!controllers.empty()) {
            // Of another namespace, the path leads out of what can be seen here.
            if (take(controllers, ',') == "devices" && line.find("/..") == std::string_view::npos) {
                return std::string(line);
            }
        }
    }
    return std::nullopt;
}

Minors opened_by(const std::string &process) {
    constexpr std::string_view prefix = "/dev/nvidia";
    Minors minors;
    std::error_code error;
    std::filesystem::directory_iterator entry(process + "/fd", error);
    for (std::size_t count = 0;
         !error && entry != std::filesystem::directory_iterator() && count < max_descriptors;
         count++) {
        std::array<char, 64> target{};
        const ssize_t size = ::readlink(entry->path().c_str(), target.data(), target.size());
        const std::string_view path(target.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
        if (path.starts_with(prefix)) {
            if (const auto minor = minor_in(path.substr(prefix.size()))) {
                minors.insert(*minor);
            }
        }
        entry.increment(error);
    }
    return minors;
}

}  // namespace

std::optional<Minors> listed_minors(std::string_view devices_list, const std::vector<Gpu> &gpus) {
    Minors minors;
    while (!devices_list.empty()) {
        std::string_view line = take(devices_list, '\n');
        const std::string_view type = take(line, ' ');
        if (type == "a") {
            return std::nullopt;
        }
        const std::string_view major = take(line, ':');
        const std::string_view minor = take(line, ' ');
        if (type != "c" || (major != "*" && major != nvidia_major) ||
            line.find('r') == std::string_view::npos || line.find('w') == std::string_view::npos) {
            continue;
        }
        for (const Gpu &gpu : gpus) {
            if (minor == "*" || minor_in(minor) == gpu.minor) {
                minors.insert(gpu.minor);
            }
        }
    }
    return minors;
}

std::optional<Minors> slurm_minors(std::string_view list) {
    Minors minors;
    while (!list.empty()) {
        std::string_view last = take(list, ',');
        const auto first =
            minor_in(last.find('-') != std::string_view::npos ? take(last, '-') : last);
        const auto end = minor_in(last);
        if (!first || !end || *end < *first) {
            return std::nullopt;
        }
        for (int minor = *first; minor <= *end; minor++) {
            minors.insert(minor);
        }
    }
    return minors.empty() ? std::nullopt : std::optional(minors);
}

Result<GpuEvidence> gpu_evidence_of(processes::ProcessReader &reader, std::uint32_t tgid,
                                    const std::vector<Gpu> &gpus, const std::string &proc,
                                    const std::string &cgroups) {
    const std::string process = proc + "/" + std::to_string(tgid);
    auto existing = gpus_below(reader, process + "/root", gpus);
    if (!existing) {
        return tl::unexpected(existing.error());
    }
    GpuEvidence evidence{std::move(*existing), std::nullopt, opened_by(process)};
    const auto groups = read_start(process + "/cgroup", max_text_bytes);
    if (const auto path = groups ? devices_cgroup(*groups) : std::nullopt) {
        const auto list =
            read_start(cgroups + "/devices" + *path + "/devices.list", max_text_bytes);
        evidence.listed = list && !list->empty() ? listed_minors(*list, gpus) : std::nullopt;
    }
    return evidence;
}

}  // namespace gpusnoop::discovery
