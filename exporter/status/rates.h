// The probes' current rates: compares their counts with the counts of some seconds ago.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::status {

struct Counts {
    std::uint64_t events = 0;
    std::uint64_t lost = 0;
};

// Of one probe: records that cannot be decoded count as lost, too.
[[nodiscard]] Counts counts_of(const probes::Health &probe);

struct Rate {
    double events = 0;  // per second
    double lost = 0;
};

struct CurrentRates {
    std::chrono::nanoseconds window{};  // the period of the rates; 0: no rates are known yet
    std::map<std::string, Rate> probes;
};

// For any thread. Times are of one clock that never goes back.
class Rates {
public:
    // A window is at least this long, and less than twice as long, except in the first seconds.
    static constexpr std::chrono::seconds interval{5};

    [[nodiscard]] bool is_due(std::chrono::nanoseconds now) const;
    // Adds the probes' counts at `now`. Call it when it is due.
    void add(std::chrono::nanoseconds now, const std::vector<probes::Health> &probes);

    // `probes` are the probes' counts at `now`.
    [[nodiscard]] CurrentRates current(std::chrono::nanoseconds now,
                                       const std::vector<probes::Health> &probes) const;

private:
    struct Sample {
        std::chrono::nanoseconds at{};
        std::map<std::string, Counts> counts;  // by probe
    };

    mutable std::mutex mutex_;
    std::deque<Sample> samples_;  // the newest last; at most one is old enough
};

// The last quarter of an hour of the processes that hold the most memory, for the page at /.

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
