// When launches are counted where they enter the driver, by what it costs to see their ends.
#include "exporter/probes/cuda/governor/launch_meter.h"

#include <catch2/catch_test_macros.hpp>

using namespace std::chrono_literals;
using gpusnoop::probes::LaunchMeter;
using std::chrono::nanoseconds;

namespace {

constexpr nanoseconds look_interval = 100ms;
constexpr double cost_of_ends = 3;

// A process whose launches would cost `full` of a tick if all were seen to their end.
struct Launching {
    nanoseconds now = 1h;
    nanoseconds cost = 5s;  // from before
    LaunchMeter meter{now, cost};
    bool is_counted = false;
    unsigned changes = 0;

    void run(nanoseconds time, nanoseconds full) {
        for (const nanoseconds until = now + time; now < until;) {
            now += look_interval;
            cost += is_counted ? full / 3 : full;
            const bool was = is_counted;
            is_counted = meter.note(now, cost, cost_of_ends);
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
