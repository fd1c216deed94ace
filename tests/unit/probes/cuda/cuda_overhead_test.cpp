// What the probe costs each process, from the kernel's table and the record of the end.
#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("what CUDA calls cost a process is on the page, and its end brings the rest") {
    Fixture bench;
    bench.calls(launch(0x10, 1));
    CHECK(bench.page("overhead_seconds_total").empty());
    bench.cost_ns = 500;
    CHECK(bench.sum("overhead_seconds_total") == 500);
    bench.allocations(exited(9'000, 0, 700));
    bench.cost_ns = 0;
    bench.apply_all();
    CHECK(bench.sum("overhead_seconds_total") == 700);
}

TEST_CASE("what an earlier exporter has shown of a process's cost is not shown again") {
    Fixture bench({.started = 1h});
    bench.cost_ns = 500;
    bench.calls(launch(0x10, 1));
    CHECK(bench.page("overhead_seconds_total").empty());
    bench.cost_ns = 650;
    CHECK(bench.sum("overhead_seconds_total") == 150);
    bench.allocations(exited(9'000, 0, 700));
    bench.apply_all();
    CHECK(bench.sum("overhead_seconds_total") == 200);
}

TEST_CASE("the cost of CUDA calls is no more than the process has run, also after its end") {
    Fixture bench;
    auto callbacks = bench.callbacks();
    callbacks.overhead = std::make_shared<OverheadLimits>([](auto) { return 450ns; });
    bench.aggregator = std::make_unique<CudaAggregator>(bench.settings, callbacks);
    bench.calls(launch(0x10, 1));
    bench.cost_ns = 500;
    CHECK(bench.sum("overhead_seconds_total") == 450);
    bench.allocations(exited(9'000, 0, 700, 650));
    bench.cost_ns = 0;
    bench.apply_all();
    CHECK(bench.sum("overhead_seconds_total") == 650);
}
