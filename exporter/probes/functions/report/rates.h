// The totals of functions, since the start and between two times. The report in the log and `top`
// both use them, so both mean the same.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gpusnoop::probes {

// A histogram of durations, with the same buckets for all functions. They are finer than the
// buckets of the metrics, as they cost no series: the error of a quantile is less than half of its
// value.
// Two buckets for each power of two, from 256 ns to 2^40 ns (18 minutes), and one for longer
// durations.
inline constexpr std::size_t call_bound_count = 65;

// The upper bounds, inclusive, in nanoseconds.
constexpr std::array<std::uint64_t, call_bound_count> call_bucket_bounds() {
    std::array<std::uint64_t, call_bound_count> bounds{256};
    for (std::size_t i = 1; i < call_bound_count; i++) {
        const std::size_t width = 9 + (i - 1) / 2;
        bounds[i] =
            i % 2 == 1 ? std::uint64_t{3} << (width - 2) : std::uint64_t{1} << width;  // 1.5 and 2
    }
    return bounds;
}

constexpr std::size_t call_bucket(std::uint64_t duration_ns) {
    constexpr std::uint64_t least = 256;
    if (duration_ns <= least) {
        return 0;
    }
    const std::uint64_t below = duration_ns - 1;
    const auto width = static_cast<std::size_t>(std::bit_width(below));
    const std::size_t bucket = 1 + 2 * (width - 9) + ((below >> (width - 2)) & 1);
    return bucket < call_bound_count ? bucket : call_bound_count;
}

// Counts by bucket, from the first to the last that is not empty: most functions need few.
class CallHistogram {
public:
    void add(std::size_t bucket, std::uint64_t count = 1) {
        if (bucket - first_ >= counts_.size()) {  // also if below first_
            make_room(bucket);
        }
        counts_[bucket - first_] += count;
    }
    CallHistogram &operator+=(const CallHistogram &other) {
        for (std::size_t i = 0; i < other.counts_.size(); i++) {
            add(other.first_ + i, other.counts_[i]);
        }
        return *this;
    }

    [[nodiscard]] std::uint64_t count(std::size_t bucket) const {
        return bucket - first_ < counts_.size() ? counts_[bucket - first_] : 0;
    }
    // All counts that are not 0 are in [first(), end()).
    [[nodiscard]] std::size_t first() const { return first_; }
    [[nodiscard]] std::size_t end() const { return first_ + counts_.size(); }
    [[nodiscard]] std::uint64_t total() const {
        std::uint64_t total = 0;
        for (const std::uint64_t count : counts_) {
            total += count;
        }
        return total;
    }

private:
    void make_room(std::size_t bucket) {
        const std::size_t first = counts_.empty() || bucket < first_ ? bucket : first_;
        const std::size_t end = bucket + 1 > this->end() ? bucket + 1 : this->end();
        std::vector<std::uint64_t> counts(end - first);
        for (std::size_t i = 0; i < counts_.size(); i++) {
            counts[first_ + i - first] = counts_[i];
        }
        first_ = first;
        counts_ = std::move(counts);
    }

    std::size_t first_ = 0;
    std::vector<std::uint64_t> counts_;
};

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
