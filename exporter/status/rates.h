// How fast the probes count now: from what they had counted a few seconds ago.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "exporter/probes/frame/probe.h"

namespace gpusnoop::status {

struct Counts {
    std::uint64_t events = 0;
    std::uint64_t lost = 0;
};

// Of one probe: its records that cannot be decoded are lost, too.
[[nodiscard]] Counts counts_of(const probes::Health &probe);

struct Rate {
    double events = 0;  // per second
    double lost = 0;
};

struct CurrentRates {
    std::chrono::nanoseconds window{};  // that they are of; 0: nothing is known yet
    std::map<std::string, Rate> probes;
};

// For any thread. Times are of one clock that never goes back.
class Rates {
public:
    // A window is at least this long, and less than twice as long, but for the first seconds.
    static constexpr std::chrono::seconds interval{5};

    [[nodiscard]] bool is_due(std::chrono::nanoseconds now) const;
    // What the probes have counted by `now`; to be called when it is due.
    void add(std::chrono::nanoseconds now, const std::vector<probes::Health> &probes);

    // `probes` is what they have counted by `now`.
    [[nodiscard]] CurrentRates current(std::chrono::nanoseconds now,
                                       const std::vector<probes::Health> &probes) const;

private:
    struct Sample {
        std::chrono::nanoseconds at{};
        std::map<std::string, Counts> counts;  // by probe
    };

    mutable std::mutex mutex_;
    std::deque<Sample> samples_;  // the newest last; of those that are old enough, one
};

}  // namespace gpusnoop::status
