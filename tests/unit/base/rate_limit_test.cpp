// What is said only so often, and when it was.
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>

#include "exporter/base/rate_limit.h"
#include "exporter/base/text/quantity_text.h"

using namespace gpusnoop;
using namespace std::chrono_literals;

TEST_CASE("times of day are written with all their digits") {
    CHECK(utc_time(0ns) == "1970-01-01T00:00:00.000000000Z");
    CHECK(utc_time(1'772'357'400'000'000'001ns) == "2026-03-01T09:30:00.000000001Z");
}

TEST_CASE("so many a second are allowed, and the others counted") {
    RateLimit limit(2);
    CHECK(limit.allow(5s));
    CHECK(limit.allow(5s + 1ns));
    CHECK_FALSE(limit.allow(6s - 1ns));
    CHECK_FALSE(limit.is_over(6s - 1ns));
    CHECK(limit.is_over(6s));
    CHECK(limit.take_suppressed() == 1);
    CHECK(limit.take_suppressed() == 0);
    CHECK(limit.allow(6s));
    RateLimit none(0);
    CHECK_FALSE(none.allow(1s));
}

TEST_CASE("a line limit: the same line once a minute, with a count, and others meanwhile") {
    LineLimit lines;
    const LineLimit::Clock::time_point start{1h};
    CHECK(lines.due("one", start) == 0);
    for (int i = 0; i < 500; i++) {
        CHECK_FALSE(lines.due("one", start + 1s));
    }
    CHECK(lines.due("two", start + 1s) == 0);
    CHECK(lines.due("one", start + 60s) == 500);
    CHECK_FALSE(lines.due("one", start + 61s));
}

TEST_CASE("a line limit: different lines are limited as well, and not kept for ever") {
    LineLimit lines;
    const LineLimit::Clock::time_point start{1h};
    int written = 0;
    for (int i = 0; i < 10'000; i++) {
        written += lines.due("line " + std::to_string(i), start) ? 1 : 0;
    }
    CHECK(written < 100);
    CHECK(lines.due("a later one", start + 2min) == 0);
}
