// Idle time by the records that the kernel sends.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <cstdint>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop::probes;
using namespace std::chrono_literals;

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
