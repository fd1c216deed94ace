// What functions have done since their counting began, and between two times. For the report in the
// log and for `top`, so that both mean the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "exporter/probes/functions/count/histogram.h"

namespace gpusnoop::probes {

// All of these only grow. What is seen of calls when they end is missing for functions that are
// followed at their entry only.
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

// What was done after `before`; the longest call is that of all. Nothing if a number went back:
// then the two are not of one counting.
[[nodiscard]] std::optional<FunctionTotals> difference(const FunctionTotals &now,
                                                       const FunctionTotals &before);

struct FunctionRates {
    // Per second.
    double calls = 0;
    double errors = 0;
    double slow_calls = 0;
    double busy = 0;  // seconds inside the calls: how many threads were, on average
    // Seconds, of calls that ended; nothing if none did.
    std::optional<double> mean;
    std::optional<double> p50;
    std::optional<double> p99;
    // The longest call, if it was one of these, else what none of them took longer than.
    std::optional<double> max;
};

// Of what was done within `seconds`, which are more than 0. `bounds` are those of the buckets, in
// seconds, ascending.
[[nodiscard]] FunctionRates rates_of(const FunctionTotals &done, std::span<const double> bounds,
                                     double seconds);

// call_bucket_bounds() in seconds.
[[nodiscard]] std::span<const double> call_bounds_in_seconds();

}  // namespace gpusnoop::probes
