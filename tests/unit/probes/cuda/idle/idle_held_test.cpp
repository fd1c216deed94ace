// The time in which programs hold memory of a GPU and leave it idle.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <cstdint>

#include "exporter/probes/cuda/idle/idle_held.h"
#include "tests/unit/probes/cuda/fixture.h"
#include "tests/unit/probes/cuda/idle/idle_fixture.h"

using namespace gpusnoop::probes;
using namespace std::chrono_literals;
using namespace gpusnoop;

// Idle time by the records that the kernel sends.

namespace {

constexpr int ways_to_work = 7;

// Gives the GPU work in one of these ways, or none.
void idle_work(const Fixture &fixture, int way, std::uint64_t at) {
    auto set = copy(0x1000, 0, 8, 0, at);
    set.head.type = CUDA_RECORD_SET;
    set.head.function = function_of("cudaMemset");
    cuda_batch_record batch{};
    batch.head = head(CUDA_RECORD_BATCH, "cudaMemcpyBatchAsync", at);
    switch (way) {
        case 0:
            return fixture.calls(launch(0xabc, 7, at));
        case 1:
            return fixture.calls(graph_launch(0xe, at));
        case 2:
            return fixture.calls(copy(0x1000, 1, 8, COPY_H2D, at));
        case 3:  // which waits until the allocations before it are known
            return fixture.calls(copy(0x1000, 1, 8, COPY_DEFAULT, at));
        case 4:
            return fixture.calls(set);
        case 5:
            return fixture.calls(batch);
        case 6: {
            const cuda_launch_key key{.since_ns = bench_since,
                                      .kernel = 0xabc,
                                      .tgid = bench_pid,
                                      .device = 0,
                                      .grid = {1, 1, 1},
                                      .block = {1, 1, 1},
                                      .epoch = 0};
            CHECK(fixture.aggregator->on_counted_launches(key, {at, at}));
            return;
        }
        default:
            return;
    }
}

}  // namespace

TEST_CASE("the record of each kind of work ends the idle time") {
    const int way = GENERATE(range(0, ways_to_work + 1));
    CAPTURE(way);
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 8, 2'000));
    fixture.apply_all();
    for (std::uint64_t second = 1; second <= 120; second++) {
        if (second % 50 == 0) {
            idle_work(fixture, way, second * second_ns);
        }
        fixture.aggregator->tidy(std::chrono::seconds(second));
    }
    CHECK(fixture.page("gpu_idle_held_seconds_total").empty() == (way < ways_to_work));
}

TEST_CASE("memory that is held while nothing is done is idle after a minute") {
    IdleFixture fixture;
    Process &process = fixture.process();
    fixture.pass(10s);
    fixture.hold(process);
    CudaIdleHeld::on_call(process, fixture.at_now(CUDA_RECORD_LAUNCH));
    fixture.pass(60s);
    CHECK(fixture.page(idle_seconds).empty());
    fixture.pass(30s);  // now at 100 s, known up to 99 s
    CHECK(fixture.idled() == 29);
    CHECK(fixture.page(idle_seconds).begin()->first ==
          series::LabelValues{"python", "", "", "", "0", "unknown"});
    CudaIdleHeld::on_call(process, fixture.at_now(CUDA_RECORD_SET));
    fixture.pass(60s);
    CHECK(fixture.idled() == 29);
    fixture.pass(11s);
    CHECK(fixture.idled() == 38);  // from 160 s on
}

TEST_CASE("without memory of the GPU, a program keeps nobody from it") {
    IdleFixture fixture;
    Process &process = fixture.process();
    fixture.hold(process, 0, MEMORY_pinned_host);
    fixture.pass(200s);
    CHECK(fixture.page(idle_seconds).empty());
    fixture.hold(process);
    fixture.pass(60s);
    CHECK(fixture.page(idle_seconds).empty());
    fixture.pass(10s);
    CHECK(fixture.idled() == 9);
    fixture.memory.apply(process,
                         release(allocation(0x1000, 100, 200 * second_ns), 270 * second_ns));
    fixture.pass(5s);
    fixture.hold(process);
    fixture.pass(65s);
    CHECK(fixture.idled() == 9 + 4);  // from 335 s on
}

TEST_CASE("every way to give the GPU work ends the idle time") {
    const auto type = GENERATE(CUDA_RECORD_LAUNCH, CUDA_RECORD_GRAPH, CUDA_RECORD_BATCH,
                               CUDA_RECORD_SET, CUDA_RECORD_COPY, CUDA_RECORD_EXIT);
    IdleFixture fixture;
    Process &process = fixture.process();
    fixture.hold(process);
    for (int i = 0; i < 5; i++) {
        fixture.pass(55s);
        if (type == CUDA_RECORD_COPY) {
            CudaIdleHeld::on_copy(process, copy(1, 2, 3, COPY_H2D, fixture.now_ns()));
        } else if (type == CUDA_RECORD_EXIT) {  // none of them: launches that are only counted
            CudaIdleHeld::on_counted(process, 0);
        } else {
            CudaIdleHeld::on_call(process, fixture.at_now(type));
        }
    }
    fixture.pass(55s);
    CHECK(fixture.page(idle_seconds).empty());
}

TEST_CASE("calls that are no work for the GPU do not end the idle time") {
    IdleFixture fixture;
    Process &process = fixture.process();
    fixture.hold(process);
    for (int i = 0; i < 5; i++) {
        fixture.pass(20s);
        CudaIdleHeld::on_call(process, fixture.at_now(CUDA_RECORD_WAIT));
        CudaIdleHeld::on_call(process, fixture.at_now(CUDA_RECORD_FREE_MEMORY));
        CudaIdleHeld::on_call(process, fixture.at_now(CUDA_RECORD_ELAPSED));
        CudaIdleHeld::on_call(process, fixture.at_now(CUDA_RECORD_FAILED));
    }
    CHECK(fixture.idled() == 39);
}

TEST_CASE("the end of the last kernel is seen by a wait, or it may still run") {
    IdleFixture fixture;
    Process &process = fixture.process();
    fixture.hold(process);
    fixture.pass(100s);
    CHECK(fixture.idled({"ended"}) == 39);  // it never launched anything
    CudaIdleHeld::on_call(process, fixture.at_now(CUDA_RECORD_LAUNCH));
    fixture.pass(100s);
    CHECK(fixture.idled({"unknown"}) == 39);
    SECTION("a wait") {
        CudaIdleHeld::on_call(process, fixture.at_now(CUDA_RECORD_WAIT));
        fixture.pass(10s);
        CHECK(fixture.idled({"ended"}) == 39 + 10);
        CHECK(fixture.idled({"unknown"}) == 39);
    }
    SECTION("a copy to the host") {
        CudaIdleHeld::on_copy(process, copy(1, 2, 3, COPY_D2H, fixture.now_ns()));
        fixture.pass(70s);
        CHECK(fixture.idled({"ended"}) == 39 + 9);
        CHECK(fixture.idled({"unknown"}) == 39);
    }
    SECTION("a copy to the GPU says nothing") {
        CudaIdleHeld::on_copy(process, copy(1, 2, 3, COPY_H2D, fixture.now_ns()));
        fixture.pass(70s);
        CHECK(fixture.idled({"ended"}) == 39);
        CHECK(fixture.idled({"unknown"}) == 39 + 9);
    }
}

TEST_CASE("what a process did before the exporter, or unseen, may still run") {
    IdleFixture fixture;
    Process &process = fixture.process();
    process.is_complete = false;
    fixture.hold(process);
    fixture.pass(100s);
    CHECK(fixture.idled({"unknown"}) == 39);
    CHECK(fixture.idled() == 39);
}

TEST_CASE("while a call is under way, and for a minute after, nothing is idle") {
    IdleFixture fixture;
    Process &process = fixture.process();
    fixture.hold(process);
    fixture.pass(105s);
    CHECK(fixture.idled() == 39);
    fixture.open = OldestCalls{{process.key, 102s}};
    fixture.pass(100s);  // the last look is at 200 s, up to 199 s
    CHECK(fixture.idled() == 42);
    fixture.open = OldestCalls();  // so it has ended by the look at 210 s
    fixture.pass(65s);
    CHECK(fixture.idled() == 42);
    fixture.pass(10s);
    CHECK(fixture.idled() == 42 + 9);
    // A long wait that was never found under way.
    auto wait = fixture.at_now(CUDA_RECORD_WAIT);
    wait.duration_ns = 2 * second_ns;
    CudaIdleHeld::on_call(process, wait);
    fixture.pass(60s);
    CHECK(fixture.idled() == 42 + 9);
}

TEST_CASE("calls under way are not listed while all programs work") {
    IdleFixture fixture;
    Process &process = fixture.process();
    fixture.hold(process);
    for (int i = 0; i < 100; i++) {
        CudaIdleHeld::on_call(process, fixture.at_now(CUDA_RECORD_LAUNCH));
        fixture.pass(1s);
    }
    CHECK(fixture.listings == 0);
    fixture.pass(10s);
    CHECK(fixture.listings == 1);
}

TEST_CASE("where calls under way cannot be listed, nothing is counted") {
    IdleFixture fixture;
    fixture.hold(fixture.process());
    fixture.open.reset();
    fixture.pass(200s);
    CHECK(fixture.page(idle_seconds).empty());
    fixture.open = OldestCalls();
    fixture.pass(10s);
    CHECK(fixture.idled() == 10);
}

TEST_CASE("while launches are not observed, nothing is idle") {
    IdleFixture fixture;
    Process &process = fixture.process();
    fixture.hold(process);
    for (int i = 0; i < 20; i++) {
        fixture.pass(10s);
        fixture.unseen[process.key] += 1s;
    }
    CHECK(fixture.page(idle_seconds).empty());
    fixture.pass(100s);
    CHECK(fixture.idled() == 89 - 60);  // they may have gone on until 210 s
}

TEST_CASE("processes with the same labels hold a GPU once, and use it together") {
    IdleFixture fixture;
    Process &one = fixture.process(1);
    Process &two = fixture.process(2);
    fixture.hold(one);
    fixture.hold(two);
    fixture.hold(two, 1);
    fixture.pass(100s);
    CHECK(fixture.idled({"0"}) == 39);
    CHECK(fixture.idled({"1"}) == 39);
    CudaIdleHeld::on_call(two, fixture.at_now(CUDA_RECORD_LAUNCH));
    fixture.pass(60s);
    CHECK(fixture.idled({"0"}) == 39);
    CHECK(fixture.idled({"1"}) == 99);
    CudaIdleHeld::on_call(two, fixture.at_now(CUDA_RECORD_LAUNCH, CUDA_DEVICE_UNKNOWN));
    fixture.pass(60s);
    CHECK(fixture.idled({"0"}) == 39);
    CHECK(fixture.idled({"1"}) == 99);
    two.ended = fixture.now;
    fixture.memory.ended(two, false);
    fixture.pass(10s);
    CHECK(fixture.idled({"0"}) == 39 + 9);
    CHECK(fixture.idled({"1"}) == 99);
}
