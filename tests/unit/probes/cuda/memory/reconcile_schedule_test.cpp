// When the table of live allocations is read.
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "exporter/probes/cuda/memory/reconcile.h"

using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("the table is read at the start, whatever was lost") {
    ReconcileSchedule schedule;
    CHECK(schedule.is_due(100s, 0, false));
    schedule.read(100s, 1ms);
    CHECK(schedule.is_due(101s, 0, false));  // it could not be read
    schedule.read(101s, 1ms);
    schedule.reconciled(0);
    CHECK_FALSE(schedule.is_due(200s, 0, false));
}

TEST_CASE("the table is read when records were lost, or something is wanted from it") {
    ReconcileSchedule schedule;
    schedule.read(100s, 1ms);
    schedule.reconciled(7);
    CHECK_FALSE(schedule.is_due(101s, 7, false));
    CHECK(schedule.is_due(101s, 8, false));
    CHECK(schedule.is_due(101s, 7, true));
}

TEST_CASE("reading takes a twentieth of a CPU while records are being lost") {
    ReconcileSchedule schedule;
    CHECK(schedule.is_due(0s, 0, false));
    schedule.read(100s, 50ms);
    schedule.reconciled(0);
    CHECK_FALSE(schedule.is_due(100s + 900ms, 1, false));
    CHECK(schedule.is_due(101s, 2, false));
}

TEST_CASE("the table is read soon after the last loss") {
    ReconcileSchedule schedule;
    CHECK(schedule.is_due(0s, 0, false));
    schedule.read(100s, 500ms);
    schedule.reconciled(0);
    CHECK_FALSE(schedule.is_due(100s + 900ms, 1, false));
    CHECK_FALSE(schedule.is_due(101s, 1, false));
    CHECK(schedule.is_due(101s + 100ms, 1, false));
    schedule.read(101s + 100ms, 500ms);
    schedule.reconciled(1);
    CHECK_FALSE(schedule.is_due(200s, 1, false));
}
