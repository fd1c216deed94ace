// Processes: whose calls are whose, and how long their series stay.
#include "exporter/probes/cuda/aggregator.h"

#include <catch2/catch_test_macros.hpp>

#include "bpf/lib/python/stacks.h"
#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("a call whose process is announced behind it in the other ring finds its process") {
    Fixture fixture;
    fixture.later(process("late"));
    fixture.calls(copy(1, 2, 64, COPY_H2D, 2'000));
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"late", "h2d"}) == 64);
}

TEST_CASE("a call whose process's record was lost is counted for a process without a name") {
    Fixture fixture;
    fixture.calls(copy(1, 2, 64, COPY_H2D, 2'000));
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"unknown", "h2d"}) == 64);
}

TEST_CASE("a process's record that comes behind its calls does not split its account") {
    Fixture fixture;
    fixture.calls(copy(1, 2, 64, COPY_H2D, 2'000));
    fixture.allocations(process("late"));
    fixture.calls(copy(1, 2, 64, COPY_H2D, 2'500));
    fixture.allocations(exited(3'000));
    fixture.aggregator->apply_until(1s);
    fixture.aggregator->tidy(2s);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"unknown", "h2d"}) == 128);
}

TEST_CASE("a reused pid and the next program after an exec are other processes") {
    Fixture fixture;
    fixture.allocations(process("first"));
    fixture.allocations(allocation(0x1000, 100, 2'000));
    fixture.allocations(process("second", bench_pid, 99'000));
    fixture.allocations(of(bench_pid, 99'000, allocation(0x1000, 7, 100'000)));
    fixture.allocations(exited(98'000));  // the first one's
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memory_allocated_bytes_total", {"first"}) == 100);
    CHECK(fixture.sum("cuda_memory_allocated_bytes_total", {"second"}) == 7);
    CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 7);
    CHECK(fixture.sum("cuda_memory_unfreed_at_exit_bytes_total", {"first"}) == 100);
    CHECK(fixture.sum("cuda_memory_unfreed_at_exit_bytes_total") == 100);
}

TEST_CASE("what a process had not freed is counted when it ends, and its gauges go") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(exited(5'000));  // read before the allocation, but later
    fixture.allocations(allocation(0x1000, 100, 2'000));
    fixture.aggregator->apply_until(1s);
    CHECK(fixture.sum("cuda_memory_unfreed_at_exit_bytes_total") == 100);
    CHECK(fixture.sum("cuda_memory_unfreed_at_exit_allocations_total") == 1);
    for (const auto *gauge :
         {"cuda_memory_outstanding_bytes", "cuda_memory_outstanding_allocations",
          "cuda_memory_outstanding_older_than_bytes", "process_info"}) {
        CHECK(fixture.page(gauge).empty());
    }
    CHECK(fixture.aggregator->allocations().empty());
    CHECK(fixture.aggregator->running().empty());
}

TEST_CASE("what a process had not freed is counted by GPU, and 0 where it freed all") {
    Fixture fixture;
    const auto page = [&] { return fixture.page("cuda_memory_unfreed_at_exit_bytes_total"); };
    fixture.allocations(process("tidy"));
    fixture.allocations(exited(2'000));
    fixture.apply_all();
    CHECK(page() == Page{{{"tidy", "", "", "", "4"}, 0}});

    fixture.allocations(process("leaky", 43));
    for (const auto &one :
         {allocation(0x1000, 100, 2'000), allocation(0x2000, 1, 2'001, MEMORY_managed),
          allocation(0x3000, 30, 2'002, MEMORY_device, 2),
          allocation(0x4000, 5, 2'003, MEMORY_device, CUDA_DEVICE_UNKNOWN)}) {
        fixture.allocations(of(43, bench_since, one));
    }
    fixture.allocations(of(43, bench_since, exited(3'000)));
    fixture.apply_all();
    CHECK(page() == Page{{{"tidy", "", "", "", "4"}, 0},
                         {{"leaky", "", "", "", "4"}, 101},
                         {{"leaky", "", "", "", "6"}, 30},
                         {{"leaky", "", "", "", "unknown"}, 5}});
    CHECK(fixture.sum("cuda_memory_unfreed_at_exit_allocations_total", {"leaky", "4"}) == 2);
}

TEST_CASE("a process that is assumed to have ended ends once") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 100, 2'000));
    fixture.apply_all();
    const ProcessKey key{bench_pid, bench_since};
    REQUIRE(fixture.aggregator->running().size() == 1);
    CHECK(fixture.aggregator->running()[0].first == key);
    fixture.aggregator->assume_ended(key, 1s);
    fixture.aggregator->assume_ended({7, 7}, 1s);
    fixture.allocations(exited(3'000));
    fixture.apply_all();
    LiveTable table{.since = 2s, .entries = {}, .processes = {}};
    table.entries.emplace_back(cuda_live_key{0x1000, bench_since, bench_pid, CUDA_LIVE_MEMORY},
                               cuda_live{.bytes = 100,
                                         .born_ns = 2'000,
                                         .context = 0,
                                         .caller = 0,
                                         .uses = 1,
                                         .python = PYTHON_STACK_NONE,
                                         .device = 0,
                                         .stack = -1,
                                         .kind = MEMORY_device,
                                         .imported = 0,
                                         .reserved = 0});
    fixture.aggregator->watch_ends();
    fixture.aggregator->reconcile(table);
    CHECK(fixture.sum("cuda_memory_unfreed_at_exit_bytes_total") == 100);
    CHECK(fixture.aggregator->running().empty());
}

TEST_CASE("a process's series stay for the retention time, then leave") {
    Fixture fixture({.retention = 60s});
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 100, 2'000));
    fixture.allocations(exited(second_ns));
    fixture.aggregator->apply_until(2s);
    fixture.aggregator->tidy(50s);
    CHECK(fixture.sum("cuda_memory_allocated_bytes_total") == 100);
    fixture.aggregator->tidy(62s);
    CHECK(fixture.page("cuda_memory_allocated_bytes_total").empty());

    SECTION("and come back from zero with the next process of that name") {
        fixture.allocations(of(bench_pid, 99, process()));
        fixture.allocations(of(bench_pid, 99, allocation(0x1000, 7, 70 * second_ns)));
        fixture.aggregator->apply_until(80s);
        CHECK(fixture.sum("cuda_memory_allocated_bytes_total") == 7);
    }
}

TEST_CASE("processes of the same name share their series, which the last of them takes along") {
    Fixture fixture({.retention = 60s});
    fixture.allocations(process());
    fixture.allocations(process("python", 43));
    fixture.calls(copy(1, 2, 64, COPY_H2D, 2'000));
    fixture.calls(of(43, bench_since, copy(1, 2, 8, COPY_H2D, 2'000)));
    CHECK(fixture.page("cuda_memcpy_bytes_total") ==
          Page{{{"python", "", "", "", "h2d", "sync", "4"}, 72}});
    fixture.allocations(exited(second_ns));
    fixture.apply_all();
    fixture.aggregator->tidy(2s);
    fixture.aggregator->tidy(500s);
    CHECK(fixture.sum("cuda_memcpy_bytes_total") == 72);
}

TEST_CASE("ten thousand processes that come and go leave their totals and nothing else") {
    Fixture fixture({.retention = 60s});
    constexpr std::uint64_t many = 10'000;
    for (std::uint64_t i = 0; i < many; i++) {
        const std::uint64_t at = 1'000'000 * (i + 1);
        const auto pid = static_cast<std::uint32_t>(100 + (i % 50));
        fixture.allocations(process("short", pid, at));
        const auto one = of(pid, at, allocation(0x1000, 10, at + 1));
        fixture.allocations(one);
        if (i % 2 == 0) {
            fixture.allocations(release(one, at + 2));
        }
        fixture.allocations(of(pid, at, exited(at + 3)));
        if (i % 100 == 0) {
            fixture.apply_all();
            fixture.aggregator->tidy(std::chrono::nanoseconds(at));
        }
    }
    fixture.apply_all();
    fixture.aggregator->tidy(11s);
    CHECK(fixture.sum("cuda_memory_allocations_total", {"short"}) == many);
    CHECK(fixture.sum("cuda_memory_frees_total") == many / 2);
    CHECK(fixture.sum("cuda_memory_unfreed_at_exit_allocations_total") == many / 2);
    CHECK(fixture.aggregator->running().empty());
    fixture.aggregator->tidy(100s);
    CHECK(fixture.page("cuda_memory_allocations_total").empty());
}

TEST_CASE("the label pid is on every family where it is asked for") {
    Fixture fixture({.pid_label = true});
    fixture.allocations(process());
    fixture.calls(copy(1, 2, 64, COPY_H2D, 2'000));
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"42"}) == 64);
}
