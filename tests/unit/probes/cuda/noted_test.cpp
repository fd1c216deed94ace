// What is noted of a process's memory until the kernel's table has been read, and how much of it.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/probes/cuda/table.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

TEST_CASE("what a reset took of the devices past the first sixteen does not come back") {
    Fixture fixture;
    fixture.allocations(process());
    Table table;
    table.has_process();
    table.destroyed_ns[{{bench_pid, bench_since}, 20}] = 5'000;
    table.has(allocation(0x1000, 1, 5'000, MEMORY_device, 20))
        .has(allocation(0x2000, 2, 5'001, MEMORY_device, 20))
        .has(allocation(0x3000, 4, 2'000, MEMORY_device, 21));
    agree(fixture, table);
    CHECK(outstanding(fixture) == 2 + 4);
    REQUIRE(fixture.forgotten.size() == 1);
    CHECK(fixture.forgotten[0].key.address == 0x1000);
}

TEST_CASE("however many contexts a process destroys, what was lost of them does not come back") {
    Fixture fixture;
    fixture.allocations(process());
    constexpr std::uint64_t many = 2'000;
    Table table;
    table.has_process();
    for (std::uint64_t context = 1; context <= many; context++) {
        auto unseen = allocation(context << 16, 1, 2'000);
        unseen.context = context;
        table.has(unseen);
        fixture.allocations(reset(0, 3'000, context));
        fixture.apply_all();
    }
    CHECK(fixture.aggregator->wants_reconciling());
    agree(fixture, table);
    CHECK(outstanding(fixture) == 0);
    CHECK(fixture.forgotten.size() == many);
    CHECK(fixture.aggregator->forgotten() == 0);

    // They have been compared: there is room for as many again.
    CHECK_FALSE(fixture.aggregator->wants_reconciling());
    fixture.allocations(reset(0, 4'000, many + 1));
    fixture.apply_all();
    CHECK_FALSE(fixture.aggregator->wants_reconciling());
}

TEST_CASE("contexts that are destroyed without end are forgotten, and counted") {
    Fixture fixture;
    fixture.allocations(process());
    for (std::uint64_t context = 1; context <= 16'384 + 10; context++) {
        fixture.allocations(reset(0, 3'000, context));
    }
    fixture.apply_all();
    CHECK(fixture.aggregator->forgotten() == 10);
}

TEST_CASE("however many allocations were briefly missing, each is freed by a free that misses it") {
    constexpr std::uint64_t many = 2'000;
    Fixture fixture;
    fixture.allocations(process());
    for (std::uint64_t i = 1; i <= many; i++) {
        fixture.briefly_missing.push_back(
            {{i << 16, bench_since, bench_pid, CUDA_LIVE_MEMORY}, 4'000});
    }
    fixture.allocations(allocation(0x1000, 1, 2'000));
    fixture.allocations(reset(0, 3'000));
    fixture.apply_all();
    CHECK(fixture.aggregator->wants_reconciling());
    for (std::uint64_t i = 1; i <= many; i++) {
        fixture.allocations(allocation(i << 16, 1, 4'000));
        fixture.allocations(unknown_release(i << 16, 5'000));
    }
    fixture.apply_all();
    CHECK(outstanding(fixture) == 0);
    CHECK(fixture.page("cuda_memory_untracked_frees_total").empty());
    CHECK(fixture.aggregator->forgotten() == 0);
}

TEST_CASE("allocations that are briefly missing without end are forgotten, and counted") {
    Fixture fixture;
    fixture.allocations(process());
    for (std::uint64_t i = 1; i <= 16'384 + 10; i++) {
        fixture.briefly_missing.push_back(
            {{i << 16, bench_since, bench_pid, CUDA_LIVE_MEMORY}, 4'000});
    }
    fixture.allocations(reset(0, 3'000));
    fixture.apply_all();
    CHECK(fixture.aggregator->forgotten() == 10);
}
