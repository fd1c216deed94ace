// What limited each process in the last minute or two, for the status page.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/host_time/aggregator.h"
#include "exporter/probes/host_time/gaps/conclusion.h"
#include "exporter/probes/host_time/process_times.h"

namespace gpusnoop::probes {

// For the aggregating thread. Times are of CLOCK_MONOTONIC.
class RecentTimes {
public:
    // What the aggregator has counted until now.
    void on_reading(const HostTimeAggregator &aggregator, std::chrono::nanoseconds now);

    struct Verdict {
        std::string_view word;  // key_of() a limit
        std::string sentence;   // "In the last 75 s: ..."
    };
    // Of the running process with this id. Nothing: not known.
    [[nodiscard]] std::optional<Verdict> verdict_of(std::uint32_t pid) const;

private:
    struct Mark {
        std::chrono::nanoseconds at{};
        ProcessTimes times;
    };
    // The newer mark is up to a minute old, the older one up to two.
    struct Process {
        Mark older;
        Mark newer;
        Mark quiet;  // the first one with all that it has launched
        Mark now;
    };
    struct Window {
        std::chrono::nanoseconds elapsed{};
        std::optional<Conclusion> conclusion;
    };
    [[nodiscard]] static Window window_of(const Process &process);

    std::map<ProcessKey, Process> processes_;
};

}  // namespace gpusnoop::probes
