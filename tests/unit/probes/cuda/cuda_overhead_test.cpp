// What the probe costs each process, from the kernel's table and the record of the end.
#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("what CUDA calls cost a process is on the page, and its end brings the rest") {
    Fixture fixture;
    fixture.calls(launch(0x10, 1));
    CHECK(fixture.page("overhead_seconds_total").empty());
    fixture.cost_ns = 500;
    CHECK(fixture.sum("overhead_seconds_total") == 500);
    fixture.allocations(exited(9'000, 0, 700));
    fixture.cost_ns = 0;
    fixture.apply_all();
    CHECK(fixture.sum("overhead_seconds_total") == 700);
}

TEST_CASE("what an earlier exporter has shown of a process's cost is not shown again") {
    Fixture fixture({.started = 1h});
    fixture.cost_ns = 500;
    fixture.calls(launch(0x10, 1));
    CHECK(fixture.page("overhead_seconds_total").empty());
    fixture.cost_ns = 650;
    CHECK(fixture.sum("overhead_seconds_total") == 150);
    fixture.allocations(exited(9'000, 0, 700));
    fixture.apply_all();
    CHECK(fixture.sum("overhead_seconds_total") == 200);
}

TEST_CASE("the cost of CUDA calls is no more than the process has run, also after its end") {
    Fixture fixture;
    auto callbacks = fixture.callbacks();
    callbacks.overhead = std::make_shared<OverheadLimits>([](auto) { return 450ns; });
    fixture.aggregator = std::make_unique<CudaAggregator>(fixture.settings, callbacks);
    fixture.calls(launch(0x10, 1));
    fixture.cost_ns = 500;
    CHECK(fixture.sum("overhead_seconds_total") == 450);
    fixture.allocations(exited(9'000, 0, 700, 650));
    fixture.cost_ns = 0;
    fixture.apply_all();
    CHECK(fixture.sum("overhead_seconds_total") == 650);
}
