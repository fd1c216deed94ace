#include "exporter/status/rates.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <vector>

using namespace gpusnoop;
using namespace gpusnoop::status;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST_CASE("the past of a process is the last quarter of an hour, and now") {
    Past past;
    CHECK(past.is_due(seconds(0)));
    for (std::uint64_t i = 0; i < 40; i++) {
        const nanoseconds now = Past::interval * static_cast<int>(i);
        REQUIRE(past.is_due(now));
        past.add(now, {{.key = {7, 1}, .bytes = i, .launches = 300 * i}});
        CHECK_FALSE(past.is_due(now + seconds(1)));
    }
    const nanoseconds now = Past::interval * 39 + seconds(15);
    const ProcessPast of = past.of({.key = {7, 1}, .bytes = 100, .launches = 300 * 39 + 150}, now);
    REQUIRE(of.held.size() == Past::most_samples + 1);
    CHECK(of.held.front() == 40 - Past::most_samples);
    CHECK(of.held.back() == 100);
    CHECK(of.launches_per_second == 10);
    // Another process, and one that has ended.
    CHECK(past.of({.key = {7, 2}, .bytes = 5, .launches = 9}, now).held ==
          std::vector<std::uint64_t>{5});
    CHECK_FALSE(past.of({.key = {7, 2}, .bytes = 5, .launches = 9}, now).launches_per_second);
    past.add(now, {});
    CHECK(past.of({.key = {7, 1}, .bytes = 5, .launches = 9}, now).held.size() == 1);
}

TEST_CASE("the number of processes with a past is bounded") {
    Past past;
    std::vector<probes::ProcessSample> samples;
    for (std::uint32_t pid = 1; pid <= 2 * Past::most_processes; pid++) {
        samples.push_back({.key = {pid, 1}, .bytes = 1, .launches = 0});
    }
    past.add(seconds(0), samples);
    CHECK(past.of(samples.front(), seconds(1)).held.size() == 2);
    CHECK(past.of(samples.back(), seconds(1)).held.size() == 1);
}
