// What is handed over of a process when it has ended.
#include "exporter/probes/cuda/totals.h"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstring>
#include <map>
#include <string>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

const std::string totals_container(64, 'a');

// Of a container.
cuda_process_record contained_process(std::uint32_t pid) {
    cuda_process_record record = process("train", pid);
    process_cgroup &cgroup = record.details.cgroup;
    const std::string names = totals_container + '\0' + "docker" + '\0';
    std::memcpy(cgroup.names, names.data(), names.size());
    cgroup.bytes = static_cast<decltype(cgroup.bytes)>(names.size());
    cgroup.levels = 2;
    cgroup.is_whole = 1;
    return record;
}

GpuProcessTotals totals_at_end(Fixture &fixture, std::uint64_t ended_ns) {
    fixture.allocations(exited(ended_ns));
    fixture.apply_all();
    fixture.aggregator->tidy(std::chrono::nanoseconds(ended_ns) + 1s);
    REQUIRE(fixture.totals.size() == 1);
    fixture.aggregator->tidy(std::chrono::nanoseconds(ended_ns) + 2s);
    REQUIRE(fixture.totals.size() == 1);
    return fixture.totals.front();
}

}  // namespace

TEST_CASE("a process's totals are handed over when it has ended, and once") {
    Fixture fixture;
    fixture.allocations(contained_process(bench_pid));
    const auto first = allocation(0x1000, 1'000, 10 * second_ns);
    const auto second = allocation(0x2000, 500, 20 * second_ns);
    fixture.allocations(first);
    fixture.allocations(second);
    fixture.allocations(release(first, 30 * second_ns));
    fixture.allocations(allocation(0x9000, 1U << 20U, 11 * second_ns, MEMORY_pinned_host));
    fixture.calls(copy(0x2000, 1, 70, COPY_H2D, 21 * second_ns));
    fixture.calls(async_copy(1, 30, 22 * second_ns));
    fixture.calls(copy(1, 0x2000, 5, COPY_DEFAULT, 23 * second_ns));
    fixture.calls(launch(1, 8, 24 * second_ns));
    fixture.calls(launch(1, 8, 25 * second_ns));
    fixture.calls(failed("cudaMemcpy", 1));
    const GpuProcessTotals totals = totals_at_end(fixture, 50 * second_ns);
    CHECK(totals.process.comm == "train");
    CHECK(totals.process.key == ProcessKey{bench_pid, bench_since});
    CHECK(totals.ended == 50s);
    REQUIRE(totals.held.size() == 1);
    const HeldTotals &held = totals.held.at("4");
    CHECK(held.peak_bytes == 1'500);
    CHECK(held.unfreed_bytes == 500);
    CHECK(held.byte_seconds == 1'000.0 * 20 + 500.0 * 30);
    CHECK(totals.launches == 2);
    CHECK(totals.errors == 1);
    CHECK(totals.copied_bytes == std::map<std::string, std::uint64_t>{{"d2h", 5}, {"h2d", 100}});
    CHECK(totals.is_memory_complete);
    CHECK(totals.are_calls_complete);
    CHECK(totals.are_launches_complete);
    REQUIRE(totals.owned.size() == 1);
    CHECK(totals.owned[0].owner == JobOwner{.container_id = totals_container});
    CHECK(totals.owned[0].held.at("4").peak_bytes == 1'500);
}

TEST_CASE("the memory of a container is the sum of its processes' at one moment") {
    Fixture fixture;
    fixture.allocations(contained_process(bench_pid));
    fixture.allocations(contained_process(bench_pid + 1));
    const auto of_first = allocation(0x1000, 1'000, 10 * second_ns);
    fixture.allocations(of_first);
    fixture.allocations(of(bench_pid + 1, bench_since, allocation(0x1000, 300, 20 * second_ns)));
    fixture.allocations(release(of_first, 30 * second_ns));
    const auto again = of(bench_pid + 1, bench_since, allocation(0x5000, 900, 40 * second_ns));
    fixture.allocations(again);
    const GpuProcessTotals totals = totals_at_end(fixture, 50 * second_ns);
    CHECK(totals.held.at("4").peak_bytes == 1'000);
    REQUIRE(totals.owned.size() == 1);
    CHECK(totals.owned[0].held.at("4").peak_bytes == 1'300);  // not 1900
}

TEST_CASE("a GPU on which a process only launched is known") {
    Fixture fixture;
    fixture.allocations(process());
    auto on_other = launch(1, 8);
    on_other.head.device = 1;
    fixture.calls(on_other);
    const GpuProcessTotals totals = totals_at_end(fixture, 50 * second_ns);
    CHECK(totals.held.at("5").peak_bytes == 0);
    CHECK(totals.owned.empty());
}

TEST_CASE("totals say what they may lack") {
    CudaSettings settings;
    Fixture fixture(settings);
    SECTION("calls that were not seen") {
        fixture.complete = false;
        fixture.allocations(process());
        const GpuProcessTotals totals = totals_at_end(fixture, 50 * second_ns);
        CHECK_FALSE(totals.is_memory_complete);
        CHECK_FALSE(totals.are_calls_complete);
        CHECK_FALSE(totals.are_launches_complete);
    }
    SECTION("records that were lost while it ran") {
        fixture.lost_records = 3;
        fixture.allocations(process());
        fixture.lost_records = 4;
        const GpuProcessTotals totals = totals_at_end(fixture, 50 * second_ns);
        CHECK(totals.is_memory_complete);
        CHECK_FALSE(totals.are_calls_complete);
        CHECK_FALSE(totals.are_launches_complete);
    }
    SECTION("graphs of unknown content") {
        fixture.allocations(process());
        fixture.calls(graph_launch(0x77, 3'000));
        const GpuProcessTotals totals = totals_at_end(fixture, 50 * second_ns);
        CHECK(totals.is_memory_complete);
        CHECK_FALSE(totals.are_calls_complete);
    }
    SECTION("nothing, for records that were lost before") {
        fixture.lost_records = 3;
        fixture.allocations(process());
        CHECK(totals_at_end(fixture, 50 * second_ns).are_calls_complete);
    }
}

TEST_CASE("what an earlier exporter counted of a process makes its totals incomplete") {
    CudaSettings settings;
    settings.started = std::chrono::nanoseconds(bench_since + 1);
    Fixture fixture(settings);
    fixture.allocations(process());
    fixture.allocations(exited(50 * second_ns));
    fixture.apply_all();
    LiveTable table;
    table.since = 100s;
    fixture.aggregator->watch_ends();
    fixture.aggregator->reconcile(table);
    fixture.aggregator->tidy(120s);
    REQUIRE(fixture.totals.size() == 1);
    CHECK_FALSE(fixture.totals.front().are_calls_complete);
    CHECK_FALSE(fixture.totals.front().are_launches_complete);
}
