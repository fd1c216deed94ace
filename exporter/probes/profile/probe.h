// Counts the stacks of followed processes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/traced_processes.h"
#include "exporter/probes/profile/processes.h"
#include "exporter/probes/profile/profile.h"

namespace gpusnoop::probes {

struct ProfileSettings {
    ProfileType type = ProfileType::cpu;
    std::uint32_t frequency = 49;                        // of cpu, samples a second of each CPU
    ProfileFilter filter;                                // of heap, one process
    std::uint64_t min_bytes = std::uint64_t{64} << 10U;  // of heap: smaller blocks are left out
    std::uint32_t max_stacks = 16384;                    // different ones, in the kernel's table
    // The most text of frames, while it is taken and in the profile; of threads' stacks, the
    // heaviest come first.
    std::size_t max_bytes = std::numeric_limits<std::size_t>::max();
};

// After the time of a profile, for looking up the names that it lacks.
inline constexpr std::chrono::seconds longest_naming{2};

// A probe that keeps no families. For one thread.
class Profiler {
public:
    virtual ~Profiler() = default;

    // Nothing is looked up in files and memory of processes beyond this limit: what has no name
    // then stays without. At first, there is none.
    virtual void set_limit(const WorkLimit &limit) = 0;

    // The stacks since start(), which ends now. Once.
    [[nodiscard]] virtual Result<Profile> take() = 0;

    // For a profile of type cpu that does not end: makes room in the kernel's table. What it has is
    // kept here for so long.
    virtual void end_slice(std::chrono::nanoseconds kept) = 0;
    // The stacks of the slices that are kept and of the one that is not over; at least so much of
    // the past, if there is so much.
    [[nodiscard]] virtual Result<Profile> past(std::chrono::nanoseconds duration,
                                               const ProfileFilter &filter) = 0;

    // Code ESRCH: the first process of the filter is none of those whose stacks are counted.
    [[nodiscard]] virtual Result<> check(const ProfileFilter &filter) const = 0;
};

// Both are one object; the profiler lives as long as the probe.
struct ProfilerAndProbe {
    std::unique_ptr<Probe> probe;
    Profiler *profiler;
};
ProfilerAndProbe make_profiler(const config::Config &config, const TracedProcessesPtr &traced,
                               ProfileSettings settings);

struct ProfileConfig {
    bool enabled = true;
    std::chrono::milliseconds max_duration = std::chrono::minutes(5);
    std::uint32_t max_stacks = 4096;  // different ones
    // Of a profile of the CPU that is taken all the time, in Hz; 0: there is none.
    std::uint32_t continuous_frequency = 0;
    std::chrono::milliseconds keep = std::chrono::minutes(10);  // so much of it can be asked for
    bool operator==(const ProfileConfig &) const = default;
};

void read_profile(config::Section profile, config::Config &config);

}  // namespace gpusnoop::probes
