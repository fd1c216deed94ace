// The files of a cgroup that say what its processes lack, of v1 and v2. A file that is missing, or
// not as expected, gives nothing.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gpusnoop::probes {

// Where the files of a process's cgroups lie. Empty: none, or the uppermost, which is everything on
// the node and not the job.
struct CgroupPlaces {
    std::string name;  // of the innermost directory, for people
    std::string unified;
    std::string cpu;
    std::string memory;

    [[nodiscard]] bool empty() const { return unified.empty() && cpu.empty() && memory.empty(); }
    auto operator<=>(const CgroupPlaces &) const = default;
};

// `cgroups` is /proc/PID/cgroup, `root` where the host's cgroups are mounted: v2, or a directory
// for each controller of v1, and for v2 the directory `unified`.
[[nodiscard]] CgroupPlaces places_of(std::string_view cgroups, const std::string &root);

// Microseconds.
struct Pressure {
    std::uint64_t some = 0;
    std::optional<std::uint64_t> full;
};
[[nodiscard]] std::optional<Pressure> parse_pressure(std::string_view text);

struct CpuQuota {
    std::uint64_t periods = 0;
    std::uint64_t throttled_periods = 0;
    std::uint64_t throttled_us = 0;
};
// Empty: the cgroup has no quota that could be used up.
[[nodiscard]] std::optional<CpuQuota> parse_cpu_stat(std::string_view text);

// Bytes by kind ("anon", "file") and node.
using NumaMemory = std::map<std::pair<std::string, std::uint32_t>, std::uint64_t>;
// `unit`: of the file's numbers: 1, or of v1 a page.
[[nodiscard]] NumaMemory parse_numa_stat(std::string_view text, std::uint64_t unit);

struct CgroupState {
    std::map<std::string, Pressure> pressure;  // by resource
    std::optional<CpuQuota> cpu;
    NumaMemory memory;

    [[nodiscard]] bool empty() const { return pressure.empty() && !cpu && memory.empty(); }
};
[[nodiscard]] CgroupState read_cgroup(const CgroupPlaces &places);

}  // namespace gpusnoop::probes
