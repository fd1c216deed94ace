// The last quarter of an hour of the processes that hold the most memory, for the page at /.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::status {

struct ProcessPast {
    std::vector<std::uint64_t> held;  // bytes, one each Past::interval, the oldest first
    std::optional<double> launches_per_second;
};

// For any thread. Samples come from one thread, each interval, whether somebody looks or not.
class Past {
public:
    static constexpr std::chrono::seconds interval{30};
    static constexpr std::size_t most_samples = 31;  // 15 minutes
    static constexpr std::size_t most_processes = 256;

    // `now` is of CLOCK_MONOTONIC.
    [[nodiscard]] bool is_due(std::chrono::nanoseconds now) const;
    // Processes without a sample have ended, or hold less than all of these.
    void add(std::chrono::nanoseconds now, const std::vector<probes::ProcessSample> &samples);

    // Until now, with what the process holds and has launched now.
    [[nodiscard]] ProcessPast of(const probes::ProcessSample &process,
                                 std::chrono::nanoseconds now) const;

private:
    struct Moment {
        std::chrono::nanoseconds at{};
        std::uint64_t bytes = 0;
        std::uint64_t launches = 0;
    };

    mutable std::mutex mutex_;
    std::optional<std::chrono::nanoseconds> sampled_;
    std::map<probes::ProcessKey, std::deque<Moment>> processes_;
};

}  // namespace gpusnoop::status
