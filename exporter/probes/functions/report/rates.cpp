#include "exporter/probes/functions/report/rates.h"

#include <algorithm>

#include "exporter/base/seconds.h"

namespace gpusnoop::probes {

namespace {

double as_double(std::uint64_t value) {
    return static_cast<double>(value);
}

bool went_back(const FunctionTotals &now, const FunctionTotals &before) {
    if (now.calls < before.calls || now.errors < before.errors ||
        now.slow_calls < before.slow_calls || now.duration_ns < before.duration_ns ||
        now.longest_ns < before.longest_ns) {
        return true;
    }
    for (std::size_t i = before.durations.first(); i < before.durations.end(); i++) {
        if (now.durations.count(i) < before.durations.count(i)) {
            return true;
        }
    }
    return false;
}

// The upper bound of a bucket; for the last one, the longest call.
double upper(std::size_t bucket, std::span<const double> bounds, double longest) {
    return bucket < bounds.size() ? std::min(bounds[bucket], longest) : longest;
}

// Assumes that calls are spread evenly over their bucket.
double quantile(const CallHistogram &durations, std::span<const double> bounds, double q,
                double longest) {
    const double rank = q * as_double(durations.total());
    double below = 0;
    for (std::size_t i = durations.first(); i < durations.end(); i++) {
        const double count = as_double(durations.count(i));
        if (count > 0 && below + count >= rank) {
            const double to = upper(i, bounds, longest);
            const double from = i == 0 ? 0 : std::min(bounds[std::min(i, bounds.size()) - 1], to);
            return from + (to - from) * (rank - below) / count;
        }
        below += count;
    }
    return longest;
}

}  // namespace

FunctionTotals &FunctionTotals::operator+=(const FunctionTotals &other) {
    calls += other.calls;
    errors += other.errors;
    slow_calls += other.slow_calls;
    duration_ns += other.duration_ns;
    longest_ns = std::max(longest_ns, other.longest_ns);
    durations += other.durations;
    return *this;
}

std::optional<FunctionTotals> grown_since(const FunctionTotals &now, const FunctionTotals &before) {
    if (went_back(now, before)) {
        return std::nullopt;
    }
    FunctionTotals done{.calls = now.calls - before.calls,
                        .errors = now.errors - before.errors,
                        .slow_calls = now.slow_calls - before.slow_calls,
                        .duration_ns = now.duration_ns - before.duration_ns,
                        .longest_ns = now.longest_ns,
                        .durations = {}};
    for (std::size_t i = now.durations.first(); i < now.durations.end(); i++) {
        if (const std::uint64_t count = now.durations.count(i) - before.durations.count(i)) {
            done.durations.add(i, count);
        }
    }
    return done;
}

FunctionRates rates_of(const FunctionTotals &done, std::span<const double> bounds, double seconds) {
    FunctionRates rates{.calls = as_double(done.calls) / seconds,
                        .errors = as_double(done.errors) / seconds,
                        .slow_calls = as_double(done.slow_calls) / seconds,
                        .busy = as_double(done.duration_ns) / nanoseconds_per_second / seconds,
                        .mean = {},
                        .p50 = {},
                        .p99 = {},
                        .max = {}};
    const std::uint64_t ended = done.durations.total();
    if (ended == 0) {
        return rates;
    }
    std::size_t last = done.durations.end() - 1;
    while (done.durations.count(last) == 0) {
        last--;
    }
    const double longest = upper(last, bounds, as_double(done.longest_ns) / nanoseconds_per_second);
    rates.mean = as_double(done.duration_ns) / nanoseconds_per_second / as_double(ended);
    rates.p50 = quantile(done.durations, bounds, 0.5, longest);
    rates.p99 = quantile(done.durations, bounds, 0.99, longest);
    rates.max = longest;
    return rates;
}

std::span<const double> call_bounds_in_seconds() {
    static constexpr auto bounds = [] {
        std::array<double, call_bound_count> seconds{};
        for (std::size_t i = 0; i < call_bound_count; i++) {
            seconds[i] = static_cast<double>(call_bucket_bounds()[i]) / nanoseconds_per_second;
        }
        return seconds;
    }();
    return bounds;
}

}  // namespace gpusnoop::probes
