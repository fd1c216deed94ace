// The totals of functions, since the start and between two times. The report in the log and `top`
// both use them, so both mean the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "exporter/probes/functions/count/histogram.h"

namespace gpusnoop::probes {

// All of these only grow. Functions that are followed at their entry only have no values from the
// ends of calls.
struct FunctionTotals {
    std::uint64_t calls = 0;
    std::uint64_t errors = 0;
    std::uint64_t slow_calls = 0;
    std::uint64_t duration_ns = 0;
    std::uint64_t longest_ns = 0;
    CallHistogram durations;  // as many as calls that ended

    void add_duration(std::uint64_t ns) {
        duration_ns += ns;
        longest_ns = ns > longest_ns ? ns : longest_ns;
        durations.add(call_bucket(ns));
    }
    FunctionTotals &operator+=(const FunctionTotals &other);
};

// The counts after `before`; the longest call is the longest of all. Nothing if a number decreased:
// then the counting was restarted in between.
[[nodiscard]] std::optional<FunctionTotals> grown_since(const FunctionTotals &now,
                                                        const FunctionTotals &before);

struct FunctionRates {
    // Per second.
    double calls = 0;
    double errors = 0;
    double slow_calls = 0;
    double busy = 0;  // seconds inside calls: mean number of threads
    // Seconds, for calls that ended; nothing if no call ended.
    std::optional<double> mean;
    std::optional<double> p50;
    std::optional<double> p99;
    // The longest call, if it was one of these, else an upper bound for these.
    std::optional<double> max;
};

// Rates for counts made within `seconds`, which is more than 0. `bounds` are the bounds of the
// buckets, in seconds, ascending.
[[nodiscard]] FunctionRates rates_of(const FunctionTotals &done, std::span<const double> bounds,
                                     double seconds);

// call_bucket_bounds() in seconds.
[[nodiscard]] std::span<const double> call_bounds_in_seconds();

}  // namespace gpusnoop::probes
