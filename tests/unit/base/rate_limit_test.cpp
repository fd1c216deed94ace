// What is said only so often, and when it was.
#include "exporter/base/rate_limit.h"

#include <catch2/catch_test_macros.hpp>

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
