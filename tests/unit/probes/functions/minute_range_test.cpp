#include "exporter/probes/functions/count/snapshot.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <optional>

using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t minute_ns = 60'000'000'000;
using Range = MinuteExtremes::Range;

std::optional<Range> range(std::uint64_t min_ns, std::uint64_t max_ns) {
    return Range{min_ns, max_ns};
}

}  // namespace

TEST_CASE("extremes are those of the last whole minute") {
    MinuteExtremes extremes;
    extremes.add(5 * minute_ns, 30);
    extremes.add(5 * minute_ns + 1, 10);
    extremes.add(6 * minute_ns - 1, 20);
    CHECK(!extremes.before(5min));  // it is not over
    CHECK(!extremes.before(6min - 1ns));
    CHECK(extremes.before(6min) == range(10, 30));
    CHECK(extremes.before(7min - 1ns) == range(10, 30));
    CHECK(!extremes.before(7min));
    extremes.add(6 * minute_ns, 100);  // of the next
    CHECK(extremes.before(6min) == range(10, 30));
    CHECK(extremes.before(7min) == range(100, 100));
    CHECK(!extremes.before(8min));
}

TEST_CASE("without a call, and in the first minute, there are none") {
    MinuteExtremes extremes;
    CHECK(!extremes.before(0ns));
    CHECK(!extremes.before(1min));
    CHECK(!extremes.before(1'000h));
    extremes.add(0, 7);
    CHECK(!extremes.before(0ns));
    CHECK(!extremes.before(59s));
    CHECK(extremes.before(1min) == range(7, 7));
}

TEST_CASE("a minute without calls has no extremes, and the ones around it keep theirs") {
    MinuteExtremes extremes;
    extremes.add(2 * minute_ns, 5);
    extremes.add(4 * minute_ns, 9);
    CHECK(extremes.before(3min) == range(5, 5));
    CHECK(!extremes.before(4min));
    CHECK(extremes.before(5min) == range(9, 9));
    CHECK(!extremes.before(6min));
}

TEST_CASE("a call that is told late counts for its own minute") {
    MinuteExtremes extremes;
    extremes.add(2 * minute_ns, 50);
    extremes.add(3 * minute_ns, 60);
    extremes.add(3 * minute_ns - 1, 1);
    extremes.add(2 * minute_ns + 1, 99);
    CHECK(extremes.before(3min) == range(1, 99));
    CHECK(extremes.before(4min) == range(60, 60));
    // Older than the last two minutes: dropped.
    extremes.add(2 * minute_ns - 1, 1'000);
    extremes.add(0, 1'000);
    CHECK(!extremes.before(2min));
    CHECK(extremes.before(3min) == range(1, 99));
    CHECK(extremes.before(4min) == range(60, 60));
}

// The minute before has no other call yet.
TEST_CASE("a call that is told late counts even where it is the first of its minute") {
    MinuteExtremes extremes;
    SECTION("of all") {}
    SECTION("since an older minute") {
        extremes.add(minute_ns, 77);
    }
    extremes.add(4 * minute_ns, 60);
    extremes.add(4 * minute_ns - 1, 5);
    extremes.add(4 * minute_ns - 2, 6);
    CHECK(extremes.before(4min) == range(5, 6));
    CHECK(extremes.before(5min) == range(60, 60));
}

TEST_CASE("extremes hold for durations of any size") {
    MinuteExtremes extremes;
    extremes.add(minute_ns, UINT64_MAX);
    CHECK(extremes.before(2min) == range(UINT64_MAX, UINT64_MAX));
    extremes.add(minute_ns, 0);
    CHECK(extremes.before(2min) == range(0, UINT64_MAX));
    extremes.add(UINT64_MAX, 3);  // as long as the clock can run
    extremes.add(minute_ns, 4);
    CHECK(!extremes.before(0ns));
}
