// When launches are counted where they enter the driver, by what it costs to see their ends.
#include "exporter/probes/cuda/governor/launch_meter.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>

using namespace std::chrono_literals;
using gpusnoop::probes::LaunchMeter;
using std::chrono::nanoseconds;

namespace {

constexpr nanoseconds look_interval = 100ms;
constexpr nanoseconds cost_of_launch = 2us;

// A process whose launches would cost `full` of an interval if all were seen to their end.
struct Launching {
    nanoseconds now = 1h;
    std::uint64_t launches = 5'000'000;  // from before
    LaunchMeter meter{now, launches};
    bool is_counted = false;
    unsigned changes = 0;

    void run(nanoseconds time, nanoseconds full, nanoseconds interval = look_interval) {
        for (const nanoseconds until = now + time; now < until;) {
            now += interval;
            launches += static_cast<std::uint64_t>(full / cost_of_launch);
            const bool was = is_counted;
            is_counted = meter.note(now, launches, cost_of_launch);
            changes += was != is_counted ? 1 : 0;
        }
    }
};

}  // namespace

TEST_CASE("a process that pays little has its launches seen to their end") {
    Launching process;
    process.run(1h, 900us);  // 0.9 %
    CHECK(process.changes == 0);
}

TEST_CASE(
    "a process that pays much has its launches counted at once, and as long as it would pay") {
    Launching process;
    process.run(look_interval, 20ms);
    CHECK(process.is_counted);
    process.run(1h, 20ms);
    CHECK(process.changes == 1);
    process.run(2s, 500us);
    CHECK_FALSE(process.is_counted);
}

TEST_CASE("between the two limits nothing changes") {
    Launching process;
    process.run(1h, 990us);
    CHECK_FALSE(process.is_counted);
    process.run(2s, 1100us);
    CHECK(process.is_counted);
    process.run(1h, 800us);
    CHECK(process.is_counted);
    CHECK(process.changes == 1);
}

TEST_CASE("a moment that costs much is over after a second") {
    Launching process;
    process.run(look_interval, 15ms);
    CHECK(process.is_counted);
    process.run(900ms, nanoseconds(0));
    CHECK(process.is_counted);
    process.run(300ms, nanoseconds(0));
    CHECK_FALSE(process.is_counted);
}

TEST_CASE("a process that pays little is not taken for another after a long exchange of links") {
    Launching process;
    process.run(1min, 500us);
    process.run(3s, 15ms, 3s);  // 0.5 %, as before
    process.run(1min, 500us);
    CHECK(process.changes == 0);
}

TEST_CASE("while it is not known what a launch costs, all are seen to their end") {
    LaunchMeter meter(1s, 0);
    CHECK_FALSE(meter.note(2s, 1'000'000, nanoseconds(0)));
}
