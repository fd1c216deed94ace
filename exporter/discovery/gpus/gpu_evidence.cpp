#include "exporter/discovery/gpus/gpu_evidence.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "exporter/base/read_file.h"
#include "exporter/system/cgroup_limits.h"

namespace gpusnoop::discovery {

namespace {

constexpr std::size_t max_text_bytes = 64 * 1024;
constexpr std::size_t max_descriptors = 4096;
constexpr int max_minor = 4096;
constexpr int most_gpus = 256;  // of a node
constexpr std::uint32_t nvidia_major = 195;

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

// The major number of a kind of character devices, by /proc/devices.
std::optional<std::uint32_t> major_of(std::string_view kind, std::string_view devices) {
    while (!devices.empty()) {
        std::string_view line = take(devices, '\n');
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        const auto major = minor_in(take(line, ' '));
        if (line == kind && major) {
            return static_cast<std::uint32_t>(*major);
        }
    }
    return std::nullopt;
}

// What one source says of a device: empty if that is not known.
using Verdict = std::function<std::optional<bool>(CharacterDevice)>;

std::optional<bool> may_open_instance(const Gpu &gpu, std::uint32_t major, const Verdict &verdict) {
    bool is_known = true;
    for (const int minor : gpu.capabilities) {
        const auto may = verdict({major, static_cast<std::uint32_t>(minor)});
        if (may == true) {
            return true;
        }
        is_known = is_known && may;
    }
    return is_known ? std::optional(false) : std::nullopt;
}

// Of a GPU that is divided, CUDA needs an instance. Empty optional: it is not known of all.
std::optional<Minors> allowed_by(const Verdict &verdict, const std::vector<Gpu> &gpus,
                                 std::optional<std::uint32_t> capabilities_major) {
    Minors minors;
    for (const Gpu &gpu : gpus) {
        auto may = gpu.minor < 0 ? std::nullopt
                                 : verdict({nvidia_major, static_cast<std::uint32_t>(gpu.minor)});
        if (may == true && gpu.mig && !gpu.capabilities.empty() && capabilities_major) {
            may = may_open_instance(gpu, *capabilities_major, verdict);
        }
        if (!may) {
            return std::nullopt;
        }
        if (*may) {
            minors.insert(gpu.minor);
        }
    }
    return minors;
}

// Empty optional: the list allows all devices, of which it does not name the denied ones.
std::optional<bool> listed_in(std::string_view devices_list, CharacterDevice device) {
    const auto is = [](std::string_view text, std::uint32_t number) {
        return text == "*" || minor_in(text) == static_cast<int>(number);
    };
    bool is_listed = false;
    while (!devices_list.empty()) {
        std::string_view line = take(devices_list, '\n');
        const std::string_view type = take(line, ' ');
        if (type == "a") {
            return std::nullopt;
        }
        const std::string_view major = take(line, ':');
        const std::string_view minor = take(line, ' ');
        is_listed =
            is_listed ||
            (type == "c" && is(major, device.major) && is(minor, device.minor) &&
             line.find('r') != std::string_view::npos && line.find('w') != std::string_view::npos);
    }
    return is_listed;
}

// In the hierarchy of devices (v1).
struct DevicesCgroup {
    bool exists = true;
    std::optional<std::string> path;  // if it can be seen from here
};

DevicesCgroup devices_cgroup(std::string_view text) {
    for (const CgroupLine &line : cgroup_lines(text)) {
        if (line.has("devices")) {
            return {true,
                    leads_out(line.path) ? std::nullopt : std::optional(std::string(line.path))};
        }
    }
    return {false, std::nullopt};
}

struct Allowed {
    std::optional<Minors> minors;
    bool is_hidden = false;
};

Allowed allowed_in(const std::string &process, const std::vector<Gpu> &gpus,
                   const GpuSources &sources) {
    const auto groups = read_start(process + "/cgroup", max_text_bytes);
    const auto devices = read_start(sources.proc + "/devices", max_text_bytes);
    const auto capabilities = major_of("nvidia-caps", devices ? *devices : "");
    const DevicesCgroup group = groups ? devices_cgroup(*groups) : DevicesCgroup{};
    Allowed allowed;
    if (group.path) {
        const auto list = read_start(sources.cgroups + "/devices" + *group.path + "/devices.list",
                                     max_text_bytes);
        if (list && !list->empty()) {
            allowed.minors = allowed_by([&](CharacterDevice of) { return listed_in(*list, of); },
                                        gpus, capabilities);
            // A list that allows all devices has exceptions perhaps, which it does not show.
            allowed.is_hidden = !allowed.minors && *group.path != "/";
        }
    }
    if (!sources.programs || (sources.programs->empty() && group.exists)) {
        return allowed;
    }
    const auto by_programs = allowed_by(
        [&](CharacterDevice of) { return sources.programs->allow(of); }, gpus, capabilities);
    allowed.is_hidden = !by_programs;
    if (!allowed.minors) {
        allowed.minors = by_programs;
    } else if (by_programs) {
        std::erase_if(*allowed.minors, [&](int minor) { return !by_programs->contains(minor); });
    }
    return allowed;
}

// Adds what one of its descriptors says.
void add_opened(std::string_view path, const std::vector<Gpu> &gpus, GpuEvidence &evidence) {
    constexpr std::string_view node = "/dev/nvidia";
    constexpr std::string_view capability = "/dev/nvidia-caps/nvidia-cap";
    if (path.starts_with(capability)) {
        const auto minor = minor_in(path.substr(capability.size()));
        for (const Gpu &gpu : gpus) {
            if (minor && std::ranges::binary_search(gpu.capabilities, *minor)) {
                evidence.opened_instances.insert(gpu.minor);
            }
        }
    } else if (path.starts_with(node)) {
        if (const auto minor = minor_in(path.substr(node.size()))) {
            evidence.opened.insert(*minor);
        }
    }
}

// The caller makes these calls itself, as they wait for nothing; but a process can have many.
void add_all_opened(processes::ProcessReader &reader, const std::string &process,
                    const std::vector<Gpu> &gpus, GpuEvidence &evidence) {
    using Clock = processes::ProcessReader::Clock;
    constexpr std::size_t between_looks = 64;
    std::error_code error;
    std::filesystem::directory_iterator entry(process + "/fd", error);
    auto began = Clock::now();
    bool may_go_on = true;
    for (std::size_t count = 0;
         may_go_on && !error && entry != std::filesystem::directory_iterator() &&
         count < max_descriptors;
         count++) {
        if (count % between_looks == between_looks - 1) {
            may_go_on = reader.spend(Clock::now() - began);
            began = Clock::now();
        }
        std::array<char, 64> target{};
        const ssize_t size = ::readlink(entry->path().c_str(), target.data(), target.size());
        add_opened({target.data(), size > 0 ? static_cast<std::size_t>(size) : 0}, gpus, evidence);
        entry.increment(error);
    }
    (void)reader.spend(Clock::now() - began);
}

}  // namespace

std::optional<Minors> slurm_minors(std::string_view list) {
    constexpr std::size_t longest = 4096;  // 256 GPUs by their numbers take 1024
    if (list.size() > longest) {
        return std::nullopt;
    }
    Minors minors;
    while (!list.empty()) {
        std::string_view last = take(list, ',');
        const auto first =
            minor_in(last.find('-') != std::string_view::npos ? take(last, '-') : last);
        const auto end = minor_in(last);
        if (!first || !end || *end < *first || *end - *first >= most_gpus) {
            return std::nullopt;
        }
        for (int minor = *first; minor <= *end; minor++) {
            minors.insert(minor);
        }
    }
    return minors.empty() ? std::nullopt : std::optional(minors);
}

Result<GpuEvidence> gpu_evidence_of(processes::ProcessReader &reader, std::uint32_t tgid,
                                    const std::vector<Gpu> &gpus, const GpuSources &sources) {
    const std::string process = sources.proc + "/" + std::to_string(tgid);
    auto existing = gpus_below(reader, process + "/root", gpus);
    if (!existing) {
        return tl::unexpected(existing.error());
    }
    Allowed allowed = allowed_in(process, gpus, sources);
    GpuEvidence evidence{.existing = std::move(*existing),
                         .listed = std::move(allowed.minors),
                         .is_hidden = allowed.is_hidden,
                         .opened = {},
                         .opened_instances = {}};
    add_all_opened(reader, process, gpus, evidence);
    for (Gpu &gpu : evidence.existing) {
        gpu.mig = gpu.mig || evidence.opened_instances.contains(gpu.minor);  // since it was read
    }
    return evidence;
}

}  // namespace gpusnoop::discovery
