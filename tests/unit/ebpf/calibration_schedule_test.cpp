// When the cost of probes is measured again, by a pretended clock and pretended CPUs.
#include "exporter/ebpf/calibration.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <vector>

using namespace gpusnoop::ebpf;
using namespace std::chrono_literals;

namespace {

// Asks every 10 seconds.
struct PretendedMachine {
    std::chrono::nanoseconds now = 100s;
    CpuTimes times{.idle = 1'000, .all = 5'000};
    CalibrationSchedule schedule{now, times};

    // The times at which it is measured, in seconds, while so many of 100 are idle.
    std::vector<std::int64_t> run(std::chrono::seconds length, std::uint64_t idle) {
        std::vector<std::int64_t> measured;
        for (const auto end = now + length; now < end;) {
            now += CalibrationSchedule::look_interval;
            times.idle += idle;
            times.all += 100;
            if (schedule.is_due(now, times)) {
                measured.push_back(std::chrono::duration_cast<std::chrono::seconds>(now).count());
            }
        }
        return measured;
    }
};

using MeasuredAt = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a calm machine is measured once more, after five minutes") {
    PretendedMachine machine;
    CHECK(machine.run(290s, 95).empty());
    CHECK(machine.run(10s, 95) == MeasuredAt{400});
    CHECK(machine.schedule.is_done());
    CHECK(machine.run(3600s, 100).empty());
}

TEST_CASE("a busy machine is measured again each time that it is calmer than ever before") {
    PretendedMachine machine;
    CHECK(machine.run(3600s, 0).empty());
    CHECK(machine.run(600s, 20) == MeasuredAt{3710});
    CHECK(machine.run(600s, 29).empty());
    CHECK(machine.run(600s, 31) == MeasuredAt{4910});
    CHECK(machine.run(3600s, 10).empty());
    CHECK_FALSE(machine.schedule.is_done());
    CHECK(machine.run(20s, 90) == MeasuredAt{9110});
    CHECK(machine.schedule.is_done());
}

TEST_CASE("times of the CPUs that stand still or fall tell nothing") {
    PretendedMachine machine;
    machine.now += 1h;
    CHECK_FALSE(machine.schedule.is_due(machine.now, machine.times));
    CHECK_FALSE(machine.schedule.is_due(machine.now, {.idle = 900, .all = 5'100}));
    CHECK(machine.schedule.is_due(machine.now, {.idle = 1'000, .all = 5'200}));
}

TEST_CASE("the times of all CPUs, from /proc/stat") {
    CHECK(cpu_times_in("cpu  10 20 30 400 50 6 7 8 900 900\ncpu0 1 1 1 1 1 1 1 1 1 1\n") ==
          CpuTimes{.idle = 450, .all = 531});
    CHECK_FALSE(cpu_times_in(""));
    CHECK_FALSE(cpu_times_in("cpu0 1 2 3 4 5 6 7 8 9 10\n"));
    CHECK_FALSE(cpu_times_in("cpu  1 2 3\ncpu0 1 2 3 4 5 6 7 8\n"));
}

TEST_CASE("of several measurements the least of each part counts") {
    LeastTimes busy{.untraced = 5,
                    .entry = 900,
                    .stepped_entry = 2'000,
                    .call = 3'000,
                    .recorded = 8'000,
                    .stack = 9'000};
    busy.merge({.untraced = 2,
                .entry = 402,
                .stepped_entry = 2'400,
                .call = 1'002,
                .recorded = 1'402,
                .stack = 2'002});
    const probe_costs costs = costs_of(busy);
    CHECK(costs.entry == 400);
    CHECK(costs.stepped_entry == 1'998);
    CHECK(costs.ending == 600);
    CHECK(costs.record == 400);
    CHECK(costs.stack == 600);
}
