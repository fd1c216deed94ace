// Which of the calls that are refused GPU memory are an event, and what is known of it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>

#include "exporter/probes/cuda/out_of_memory/verdict.h"
#include "tests/unit/probes/cuda/out_of_memory/bench.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST_CASE("a refusal that is not repaired is an event with who holds what") {
    OutOfMemoryBench fixture;
    for (int i = 0; i < 6; i++) {
        fixture.aggregator->tidy(seconds(2 + (i * 60)));
    }
    fixture.allocations(allocation(0x3000, 2 * oom_gib, 303 * second_ns));
    fixture.allocations(refused(20 * oom_gib, 310 * second_ns));
    fixture.calls(free_memory(3 * oom_gib, 80 * oom_gib, 310 * second_ns + 1'000));
    fixture.until(310);
    CHECK(fixture.out_of_memory.empty());
    fixture.name_site(fixture.asked_sites.size() - 1, "grow");
    fixture.until(312);
    REQUIRE(fixture.out_of_memory.size() == 1);
    const OutOfMemory &event = fixture.out_of_memory[0];
    CHECK(event.verdict == OomVerdict::neighbor);
    CHECK(event.gpu == "4");
    CHECK(event.requested == 20 * oom_gib);
    CHECK(event.kind == "device");
    CHECK(event.function == "cudaMalloc");
    CHECK(event.tid == 7);
    CHECK(event.site == "grow");
    CHECK(event.asker.on_gpu() == 10 * oom_gib);
    CHECK(event.asker.growth == 2 * oom_gib);
    CHECK(event.asker.growth_over == seconds(308));
    REQUIRE(event.others.size() == 1);
    CHECK(event.others[0].pid == 43);
    CHECK(event.others[0].on_gpu() == 66 * oom_gib);
    CHECK(event.others[0].growth == 0);
    REQUIRE(event.memory);
    CHECK(event.memory->free == 3 * oom_gib);
    CHECK(event.memory->age == nanoseconds(-1'000));
    CHECK(event.not_accounted_for() == oom_gib);
    CHECK(fixture.page(oom_family) == Page{{{"train", "", "", "", "4", "neighbor"}, 1}});

    // A younger program has grown since its first call.
    OutOfMemoryBench young;
    young.aggregator->tidy(seconds(3));
    young.allocations(refused(20 * oom_gib, 4 * second_ns));
    young.until(6);
    REQUIRE(young.out_of_memory.size() == 1);
    CHECK(young.out_of_memory[0].asker.growth == 8 * oom_gib);
}

TEST_CASE("what was free before memory was allocated or freed says nothing of a refusal") {
    const auto event_after = [](const auto &records) {
        OutOfMemoryBench fixture;
        records(fixture);
        fixture.until(20);
        REQUIRE(fixture.out_of_memory.size() == 1);
        return fixture.out_of_memory[0];
    };
    constexpr std::uint64_t at = 10 * second_ns;
    constexpr std::uint64_t just = 1'000'000;
    const OutOfMemory same = event_after([](OutOfMemoryBench &fixture) {
        fixture.calls(free_memory(6 * oom_gib, 80 * oom_gib, at - just));
        fixture.allocations(refused(oom_gib, at));
    });
    CHECK(same.verdict == OomVerdict::own_limit);
    // It has allocated what was free.
    const OutOfMemory allocated = event_after([](OutOfMemoryBench &fixture) {
        fixture.calls(free_memory(6 * oom_gib, 80 * oom_gib, at - just));
        fixture.allocations(allocation(0x5000, 5 * oom_gib, at - 1'000));
        fixture.allocations(refused(oom_gib, at));
    });
    CHECK(allocated.verdict == OomVerdict::neighbor);
    CHECK(allocated.asker.on_gpu() == 13 * oom_gib);
    CHECK_FALSE(allocated.not_accounted_for());
    // It has freed memory before it read what is free.
    const OutOfMemory freed = event_after([](OutOfMemoryBench &fixture) {
        fixture.allocations(refused(5 * oom_gib, at));
        fixture.allocations(release(allocation(0x1000, 8 * oom_gib, second_ns), at + 1'000));
        fixture.calls(free_memory(14 * oom_gib, 80 * oom_gib, at + just));
    });
    CHECK(freed.verdict == OomVerdict::neighbor);
    CHECK(freed.asker.on_gpu() == 8 * oom_gib);
    // Another program has taken it in between, or has ended.
    const OutOfMemory taken = event_after([](OutOfMemoryBench &fixture) {
        fixture.calls(free_memory(6 * oom_gib, 80 * oom_gib, at - just));
        fixture.allocations(of(43, 2'000, allocation(0x6000, 5 * oom_gib, at - 1'000)));
        fixture.allocations(refused(oom_gib, at));
    });
    CHECK(taken.verdict == OomVerdict::neighbor);
    const OutOfMemory left = event_after([](OutOfMemoryBench &fixture) {
        fixture.allocations(refused(7 * oom_gib, at));
        fixture.allocations(of(43, 2'000, exited(at + 1'000)));
        fixture.calls(free_memory(70 * oom_gib, 80 * oom_gib, at + just));
    });
    CHECK(left.verdict == OomVerdict::neighbor);
    // What others read tells how much there is, and not how much was free.
    const OutOfMemory others = event_after([](OutOfMemoryBench &fixture) {
        fixture.allocations(process("third", 44, 3'000));
        fixture.calls(of(43, 2'000, free_memory(6 * oom_gib, 80 * oom_gib, at - just)));
        fixture.allocations(of(44, 3'000, refused(8 * oom_gib, at)));
    });
    CHECK(others.verdict == OomVerdict::neighbor);
    REQUIRE(others.memory);
    CHECK(others.memory->total == 80 * oom_gib);
    CHECK_FALSE(others.memory->is_of_that_moment());
}

TEST_CASE("pieces of a refused request that the program gave back are not held against it") {
    OutOfMemoryBench fixture;
    const auto piece = allocation(0x7000, 3 * oom_gib, 9 * second_ns, MEMORY_vmm);
    fixture.allocations(piece);
    fixture.allocations(refused(20 << 20, 10 * second_ns, 7, MEMORY_vmm));
    fixture.allocations(release(piece, 10 * second_ns + 1'000));
    fixture.calls(free_memory(4 * oom_gib, 80 * oom_gib, 10 * second_ns + 2'000));
    fixture.until(10);
    fixture.aggregator->apply_until(nanoseconds(10 * second_ns + 3'000));
    fixture.aggregator->on_torch({.pid = bench_pid,
                                  .at_ns = 10 * second_ns + 3'000,
                                  .device = 0,
                                  .bytes = 5 * oom_gib,
                                  .allocated = 8 * oom_gib,
                                  .reserved = 8 * oom_gib,
                                  .count = 3});
    fixture.until(20);
    REQUIRE(fixture.out_of_memory.size() == 1);
    const OutOfMemory &event = fixture.out_of_memory[0];
    CHECK(event.asker.on_gpu() == 8 * oom_gib);
    CHECK(event.requested == 5 * oom_gib);
    CHECK(event.count == 3);
    REQUIRE(event.memory);
    CHECK(event.memory->is_of_that_moment());
    CHECK(event.not_accounted_for() == 2 * oom_gib);
    CHECK(event.verdict == OomVerdict::neighbor);
}

TEST_CASE("a process that is refused all the time keeps no other from being explained") {
    OutOfMemoryBench fixture;
    for (std::uint32_t i = 0; i < 5'000; i++) {
        const auto one = of(43, 2'000, refused(20 * oom_gib, (10 * second_ns) + i, 1 + (i % 100)));
        fixture.allocations(one);
        if (i % 2 == 0) {
            fixture.allocations(of(43, 2'000, repaired(one, (10 * second_ns) + i)));
        }
    }
    fixture.allocations(refused(20 * oom_gib, (10 * second_ns) + 5'000));
    fixture.until(20);
    const auto event = std::ranges::find(fixture.out_of_memory, bench_pid,
                                         [](const OutOfMemory &one) { return one.asker.pid; });
    REQUIRE(event != fixture.out_of_memory.end());
    CHECK(event->verdict == OomVerdict::neighbor);
    CHECK(fixture.out_of_memory.size() == 2);
}

TEST_CASE("a retry of the same thread that succeeds within a second repairs a refusal") {
    OutOfMemoryBench fixture;
    const auto first = refused(20 * oom_gib, 10 * second_ns);
    fixture.allocations(first);
    fixture.allocations(repaired(first, 10 * second_ns + 500'000'000));
    fixture.until(20);
    CHECK(fixture.out_of_memory.empty());
    // Another thread's success does not, nor does one that comes later.
    const auto second = refused(20 * oom_gib, 21 * second_ns, 8);
    fixture.allocations(second);
    auto other = repaired(second, 21 * second_ns + 1'000);
    other.tid = 9;
    fixture.allocations(other);
    fixture.until(23);
    fixture.allocations(repaired(second, 24 * second_ns));
    fixture.until(30);
    CHECK(fixture.out_of_memory.size() == 1);
    // A thread is refused several times before it gives up, or gets it.
    for (std::uint64_t i = 0; i < 3; i++) {
        fixture.allocations(refused(20 * oom_gib, (50 * second_ns) + (i * 800'000'000), 8));
    }
    fixture.allocations(
        repaired(refused(20 * oom_gib, (50 * second_ns) + 1'600'000'000, 8), 52 * second_ns));
    fixture.until(60);
    CHECK(fixture.out_of_memory.size() == 1);
}

TEST_CASE("a storm of refusals is one event with a count") {
    OutOfMemoryBench fixture;
    std::uint64_t at = 10 * second_ns;
    for (int i = 0; i < 500; i++, at += second_ns / 20) {
        fixture.allocations(refused((i + 1) * oom_gib, at));
        fixture.until(at / second_ns);
    }
    fixture.until(40);
    CHECK(fixture.out_of_memory.size() == 1);
    CHECK(fixture.sum(oom_family) == 1);
    auto kept = fixture.aggregator->out_of_memory().list();
    REQUIRE(kept.size() == 1);
    CHECK(kept[0].count == 500);
    CHECK(kept[0].last > kept[0].at);
    // Many threads at once: others are compared for the first ones, and that stays.
    OutOfMemoryBench threads;
    for (std::uint32_t i = 0; i < 2'000; i++) {
        threads.allocations(refused(20 * oom_gib, (10 * second_ns) + i, 1 + (i % 50)));
    }
    threads.until(20);
    REQUIRE(threads.out_of_memory.size() == 1);
    CHECK(threads.out_of_memory[0].verdict == OomVerdict::neighbor);
    CHECK(threads.aggregator->out_of_memory().list()[0].count == 2'000);
    // After a while it is another one; so is that of another process or GPU.
    fixture.allocations(refused(oom_gib, 60 * second_ns));
    fixture.allocations(of(43, 2'000, refused(oom_gib, 60 * second_ns)));
    fixture.allocations(refused(oom_gib, 60 * second_ns, 9, MEMORY_device, 1));
    fixture.until(70);
    CHECK(fixture.out_of_memory.size() == 4);
}

TEST_CASE("pinned memory is not the GPU's, and other errors are no refusals") {
    OutOfMemoryBench fixture;
    fixture.allocations(refused(oom_gib, 10 * second_ns, 7, MEMORY_pinned_host));
    auto invalid = refused(oom_gib, 10 * second_ns);
    invalid.head.result = 1;
    fixture.allocations(invalid);
    fixture.calls(failed("cuptiSubscribe", CUDA_OUT_OF_MEMORY));
    fixture.calls(failed("cudaGetKernel", CUDA_OUT_OF_MEMORY));  // its caller fails too
    fixture.until(20);
    CHECK(fixture.out_of_memory.empty());
    for (const char *symbol : {"cudaLaunchKernel", "cuModuleLoadData", "cudaSetDevice"}) {
        auto record = failed(symbol, CUDA_OUT_OF_MEMORY);
        record.head.ended_ns = 30 * second_ns;
        record.tid = static_cast<std::uint32_t>(fixture.out_of_memory.size());
        record.head.device = static_cast<std::int32_t>(fixture.out_of_memory.size());
        fixture.calls(record);
        fixture.until(40);
        REQUIRE_FALSE(fixture.out_of_memory.empty());
        CHECK_FALSE(fixture.out_of_memory.back().requested);
    }
    CHECK(fixture.out_of_memory.size() == 3);
}

TEST_CASE("an event comes of a process that ends at once, with what it held") {
    OutOfMemoryBench fixture;
    fixture.allocations(refused(20 * oom_gib, 10 * second_ns));
    fixture.allocations(exited(10 * second_ns + 1'000'000));
    fixture.aggregator->apply_until(nanoseconds(10 * second_ns + second_ns / 2));
    fixture.aggregator->tidy(seconds(11));
    CHECK(fixture.out_of_memory.empty());
    fixture.until(12);
    fixture.aggregator->tidy(seconds(12));
    REQUIRE(fixture.out_of_memory.size() == 1);
    CHECK(fixture.out_of_memory[0].asker.on_gpu() == 8 * oom_gib);
    CHECK_FALSE(fixture.aggregator->knows({bench_pid, bench_since}));
    CHECK(fixture.sum(oom_family) == 1);
}

TEST_CASE("nobody's memory is compared on a divided GPU, and on one that is not known") {
    CudaSettings settings;
    settings.gpus.resize(2);
    settings.gpus[0].index = 4;
    settings.gpus[0].mig = true;
    OutOfMemoryBench fixture(settings);
    fixture.allocations(refused(20 * oom_gib, 10 * second_ns));
    fixture.allocations(refused(20 * oom_gib, 10 * second_ns, 8, MEMORY_device, 40));
    fixture.until(20);
    REQUIRE(fixture.out_of_memory.size() == 2);
    for (const OutOfMemory &event : fixture.out_of_memory) {
        INFO(event.gpu);
        CHECK_FALSE(event.compares);
        CHECK(event.others.empty());
        CHECK(event.verdict != OomVerdict::neighbor);
    }

    // Each process is told the size of its own part.
    OutOfMemoryBench parts;
    parts.calls(of(43, 2'000, free_memory(oom_gib, 10 * oom_gib, 3 * second_ns)));
    parts.allocations(refused(20 * oom_gib, 10 * second_ns));
    parts.until(20);
    REQUIRE(parts.out_of_memory.size() == 1);
    CHECK_FALSE(parts.out_of_memory[0].compares);
}

TEST_CASE("PyTorch's refusal is final, and says how much was asked for") {
    OutOfMemoryBench fixture;
    // A piece, as with expandable segments.
    const auto piece = refused(20 << 20, 10 * second_ns, 7, MEMORY_vmm);
    fixture.allocations(piece);
    fixture.until(10);
    fixture.aggregator->on_torch({.pid = bench_pid,
                                  .at_ns = 10 * second_ns + 2'000'000,
                                  .device = 0,
                                  .bytes = 3 * oom_gib,
                                  .allocated = 4 * oom_gib,
                                  .reserved = 8 * oom_gib});
    fixture.allocations(repaired(piece, 10 * second_ns + 3'000'000));
    fixture.until(20);
    REQUIRE(fixture.out_of_memory.size() == 1);
    CHECK(fixture.out_of_memory[0].requested == 3 * oom_gib);
    CHECK(fixture.out_of_memory[0].function == "cuMemCreate");
    CHECK(fixture.out_of_memory[0].count == 1);
    CHECK(fixture.out_of_memory[0].verdict == OomVerdict::fragmentation);

    // That it refused is known late, when its next piece is there.
    const auto late = refused(20 << 20, 30 * second_ns, 7, MEMORY_vmm);
    fixture.allocations(late);
    fixture.allocations(repaired(late, 30 * second_ns + 3'000'000));
    fixture.aggregator->apply_until(nanoseconds(30 * second_ns + 10'000'000));
    fixture.aggregator->on_torch({.pid = bench_pid,
                                  .at_ns = 30 * second_ns + 2'000'000,
                                  .device = 0,
                                  .bytes = 3 * oom_gib,
                                  .allocated = 4 * oom_gib,
                                  .reserved = 8 * oom_gib});
    fixture.until(35);
    REQUIRE(fixture.out_of_memory.size() == 2);
    CHECK(fixture.out_of_memory[1].function == "cuMemCreate");

    // A memory fraction refuses without any call of CUDA.
    fixture.calls(free_memory(20 * oom_gib, 80 * oom_gib, 50 * second_ns));
    fixture.until(50);
    fixture.aggregator->on_torch({.pid = bench_pid,
                                  .at_ns = 50 * second_ns + 1'000,
                                  .device = 0,
                                  .bytes = oom_gib,
                                  .allocated = 8 * oom_gib,
                                  .reserved = 8 * oom_gib});
    fixture.until(60);
    REQUIRE(fixture.out_of_memory.size() == 3);
    CHECK(fixture.out_of_memory[2].verdict == OomVerdict::own_limit);
    // Of a process that is not known.
    fixture.aggregator->on_torch({.pid = 99, .at_ns = 70 * second_ns, .bytes = oom_gib});
    fixture.until(80);
    CHECK(fixture.out_of_memory.size() == 3);
}
