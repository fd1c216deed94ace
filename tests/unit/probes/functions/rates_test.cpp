// Buckets, quantiles and rates of functions: against sorted lists of the same durations.
#include "exporter/probes/functions/report/rates.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

using namespace gpusnoop::probes;
using Catch::Matchers::WithinRel;

namespace {

FunctionTotals totals_of(const std::vector<std::uint64_t> &durations) {
    FunctionTotals totals;
    for (const std::uint64_t duration : durations) {
        totals.calls++;
        totals.add_duration(duration);
    }
    return totals;
}

FunctionRates rates(const FunctionTotals &done, double seconds = 1) {
    return rates_of(done, call_bounds_in_seconds(), seconds);
}

}  // namespace

TEST_CASE("a duration is in the first bucket whose bound it does not exceed") {
    const auto bounds = call_bucket_bounds();
    CHECK(std::ranges::is_sorted(bounds));
    CHECK(bounds.front() == 256);
    CHECK(bounds.back() == std::uint64_t{1} << 40);
    std::mt19937_64 random(1);
    std::vector<std::uint64_t> durations = {0, 1, 255, 256, 257, UINT64_MAX};
    for (const std::uint64_t bound : bounds) {
        durations.insert(durations.end(), {bound - 1, bound, bound + 1});
    }
    for (int i = 0; i < 10'000; i++) {
        durations.push_back(random() >> (random() % 64));
    }
    for (const std::uint64_t duration : durations) {
        CAPTURE(duration);
        const auto expected = std::ranges::lower_bound(bounds, duration) - bounds.begin();
        REQUIRE(call_bucket(duration) == static_cast<std::size_t>(expected));
    }
}

TEST_CASE("a histogram holds what was added, in whatever order it came") {
    std::mt19937_64 random(2);
    for (int round = 0; round < 100; round++) {
        CallHistogram histogram;
        CallHistogram other;
        CHECK(histogram.total() == 0);
        CHECK(histogram.first() == histogram.end());
        std::map<std::size_t, std::uint64_t> expected;
        std::uint64_t total = 0;
        for (int i = 0; i < 30; i++) {
            const std::size_t bucket = random() % (call_bound_count + 1);
            const std::uint64_t count = random() % 5;
            (i % 3 == 0 ? other : histogram).add(bucket, count);
            expected[bucket] += count;
            total += count;
        }
        histogram += other;
        CHECK(histogram.total() == total);
        for (std::size_t bucket = 0; bucket < call_bound_count + 10; bucket++) {
            REQUIRE(histogram.count(bucket) == expected[bucket]);
            if (expected[bucket] > 0) {
                REQUIRE(histogram.first() <= bucket);
                REQUIRE(bucket < histogram.end());
            }
        }
    }
}

TEST_CASE("the difference of two times is what was added between them") {
    const FunctionTotals before = totals_of({300, 5'000, 5'000});
    FunctionTotals now = before;
    now.errors = 2;
    now.slow_calls = 1;
    now += totals_of({100, 5'000, 2'000'000});
    const auto done = grown_since(now, before);
    REQUIRE(done);
    CHECK(done->calls == 3);
    CHECK(done->errors == 2);
    CHECK(done->slow_calls == 1);
    CHECK(done->duration_ns == 2'005'100);
    CHECK(done->longest_ns == 2'000'000);
    CHECK(done->durations.total() == 3);
    CHECK(done->durations.count(call_bucket(5'000)) == 1);
    CHECK(done->durations.count(call_bucket(300)) == 0);
}

TEST_CASE("numbers that go back are no difference") {
    const FunctionTotals before = [] {
        FunctionTotals totals = totals_of({300, 5'000});
        totals.errors = 1;
        totals.slow_calls = 1;
        return totals;
    }();
    CHECK(grown_since(before, before));
    CHECK_FALSE(grown_since({}, before));
    FunctionTotals other = before;
    other.calls--;
    CHECK_FALSE(grown_since(other, before));
    other = before;
    other.errors--;
    CHECK_FALSE(grown_since(other, before));
    other = before;
    other.slow_calls--;
    CHECK_FALSE(grown_since(other, before));
    other = before;
    other.duration_ns--;
    CHECK_FALSE(grown_since(other, before));
    other = before;
    other.durations = {};
    other.durations.add(call_bucket(5'000), 9);  // more calls, but none where one was
    CHECK_FALSE(grown_since(other, before));
}

TEST_CASE("rates are per second, and those of no call are none") {
    FunctionTotals done = totals_of({1'000'000, 3'000'000});
    done.errors = 1;
    done.slow_calls = 2;
    const FunctionRates of_two = rates(done, 0.5);
    CHECK(of_two.calls == 4);
    CHECK(of_two.errors == 2);
    CHECK(of_two.slow_calls == 4);
    CHECK_THAT(of_two.busy, WithinRel(0.008, 1e-9));
    CHECK_THAT(of_two.mean.value(), WithinRel(0.002, 1e-9));
    CHECK_THAT(of_two.max.value(), WithinRel(0.003, 1e-9));
    const FunctionRates entries = rates({.calls = 7, .durations = {}});
    CHECK(entries.calls == 7);
    CHECK_FALSE(entries.mean);
    CHECK_FALSE(entries.p50);
    CHECK_FALSE(entries.p99);
    CHECK_FALSE(entries.max);
}

TEST_CASE("quantiles lie in the bucket of the true ones") {
    std::mt19937_64 random(3);
    for (int round = 0; round < 300; round++) {
        std::vector<std::uint64_t> durations;
        std::lognormal_distribution<double> spread(10, 0.2 + static_cast<double>(round % 5));
        const auto count = 1 + random() % 400;
        for (std::uint64_t i = 0; i < count; i++) {
            durations.push_back(static_cast<std::uint64_t>(std::min(spread(random), 1e14)));
        }
        const FunctionRates found = rates(totals_of(durations));
        std::ranges::sort(durations);
        const auto longest = static_cast<double>(durations.back()) / 1e9;
        CHECK_THAT(found.max.value(), WithinRel(longest, 1e-9));
        for (const auto &[q, value] : {std::pair(0.5, found.p50), std::pair(0.99, found.p99)}) {
            CAPTURE(round, q, count);
            const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(count)));
            const std::size_t bucket = call_bucket(durations[rank - 1]);
            const auto bounds = call_bounds_in_seconds();
            REQUIRE(value.value() <= longest * (1 + 1e-9));
            REQUIRE(value.value() >= (bucket == 0 ? 0 : bounds[bucket - 1]) * (1 - 1e-9));
            if (bucket < bounds.size()) {
                REQUIRE(value.value() <= bounds[bucket] * (1 + 1e-9));
            }
        }
    }
}

TEST_CASE("the longest of some calls is told by its bucket, if an older one was longer") {
    const FunctionTotals before = totals_of({5'000'000'000});
    FunctionTotals now = before;
    now += totals_of({1'000, 1'100});
    const FunctionRates found = rates(grown_since(now, before).value());
    CHECK(found.max.value() == 1'536e-9);
    CHECK(found.p50.value() <= 1'536e-9);
    // Above the last bound there is only the longest of all to tell.
    now += totals_of({std::uint64_t{1} << 41});
    CHECK_THAT(rates(grown_since(now, before).value()).max.value(),
               WithinRel(2199.023255552, 1e-9));
}
