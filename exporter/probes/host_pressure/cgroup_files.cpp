#include "exporter/probes/host_pressure/cgroup_files.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <ranges>
#include <vector>

#include "exporter/base/read_file.h"
#include "exporter/system/cgroup_limits.h"

namespace gpusnoop::probes {

namespace {

// At least one part, which may be empty.
std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    for (const auto part : std::views::split(text, at)) {
        parts.emplace_back(part.begin(), part.end());
    }
    if (parts.empty()) {
        parts.emplace_back();
    }
    return parts;
}

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(value)
                                                                    : std::nullopt;
}

bool is_v2(const std::string &directory) {
    std::error_code error;
    return std::filesystem::exists(directory + "/cgroup.controllers", error);
}

// The value behind "key=" among the words of a line.
std::optional<std::uint64_t> value_of(const std::vector<std::string_view> &words,
                                      std::string_view key) {
    for (const std::string_view word : words) {
        if (word.starts_with(key)) {
            return number(word.substr(key.size()));
        }
    }
    return std::nullopt;
}

template <typename T>
std::optional<T> parsed(const std::string &path, std::optional<T> (*parse)(std::string_view text)) {
    const auto text = read_start(path);
    return text ? parse(*text) : std::nullopt;
}

}  // namespace

CgroupPlaces places_of(std::string_view cgroups, const std::string &root) {
    CgroupPlaces places;
    for (const CgroupLine &line : cgroup_lines(cgroups)) {
        if (line.is_v2()) {
            places.unified = cgroup_directory(is_v2(root) ? root : root + "/unified", line.path);
        }
        if (line.has("cpu")) {
            places.cpu = cgroup_directory(root + "/cpu", line.path);
        }
        if (line.has("memory")) {
            places.memory = cgroup_directory(root + "/memory", line.path);
        }
    }
    for (const std::string *const place : {&places.memory, &places.cpu, &places.unified}) {
        if (!place->empty()) {
            places.name = place->substr(place->rfind('/') + 1);
        }
    }
    return places;
}

std::optional<Pressure> parse_pressure(std::string_view text) {
    std::optional<std::uint64_t> some;
    std::optional<std::uint64_t> full;
    for (const std::string_view line : split(text, '\n')) {
        const auto words = split(line, ' ');
        if (words.front() == "some") {
            some = value_of(words, "total=");
        } else if (words.front() == "full") {
            full = value_of(words, "total=");
        }
    }
    return some ? std::optional(Pressure{*some, full}) : std::nullopt;
}

std::optional<CpuQuota> parse_cpu_stat(std::string_view text) {
    constexpr std::uint64_t ns_per_us = 1000;
    std::map<std::string_view, std::uint64_t> values;
    for (const std::string_view line : split(text, '\n')) {
        const auto words = split(line, ' ');
        if (words.size() == 2) {
            if (const auto value = number(words[1])) {
                values[words[0]] = *value;
            }
        }
    }
    if (!values.contains("nr_periods") || values["nr_periods"] == 0) {
        return std::nullopt;
    }
    return CpuQuota{.periods = values["nr_periods"],
                    .throttled_periods = values["nr_throttled"],
                    .throttled_us = values.contains("throttled_usec")
                                        ? values["throttled_usec"]
                                        : values["throttled_time"] / ns_per_us};
}

NumaMemory parse_numa_stat(std::string_view text, std::uint64_t unit) {
    NumaMemory memory;
    for (const std::string_view line : split(text, '\n')) {
        const auto words = split(line, ' ');
        // Of v1 the kind is followed by the sum of all nodes: "anon=12 N0=12".
        const std::string kind(words.front().substr(0, words.front().find('=')));
        if (kind != "anon" && kind != "file") {
            continue;
        }
        for (const std::string_view word : words | std::views::drop(1)) {
            const std::size_t equals = word.find('=');
            if (!word.starts_with('N') || equals == std::string_view::npos) {
                continue;
            }
            const auto node = number(word.substr(1, equals - 1));
            const auto value = number(word.substr(equals + 1));
            if (node && value) {
                memory[{kind, static_cast<std::uint32_t>(*node)}] = *value * unit;
            }
        }
    }
    return memory;
}

CgroupState read_cgroup(const CgroupPlaces &places) {
    CgroupState state;
    const auto numa = [&](const std::string &directory, std::uint64_t unit) {
        if (const auto text = read_start(directory + "/memory.numa_stat")) {
            state.memory = parse_numa_stat(*text, unit);
        }
    };
    if (!places.unified.empty()) {
        for (const char *const resource : {"cpu", "memory", "io"}) {
            if (const auto pressure = parsed<Pressure>(
                    places.unified + "/" + resource + ".pressure", parse_pressure)) {
                state.pressure[resource] = *pressure;
            }
        }
        state.cpu = parsed<CpuQuota>(places.unified + "/cpu.stat", parse_cpu_stat);
        numa(places.unified, 1);
    }
    if (!places.cpu.empty()) {
        state.cpu = parsed<CpuQuota>(places.cpu + "/cpu.stat", parse_cpu_stat);
    }
    if (!places.memory.empty()) {
        numa(places.memory, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
    }
    return state;
}

}  // namespace gpusnoop::probes
