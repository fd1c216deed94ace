#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>

#include "exporter/base/rate_limit.h"

using namespace gpusnoop;
using namespace std::chrono_literals;

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
