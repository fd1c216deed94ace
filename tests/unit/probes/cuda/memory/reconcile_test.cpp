// Our live allocations and the kernel's table of them, after records were lost.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>

#include "exporter/probes/cuda/memory/reconcile.h"
#include "tests/unit/probes/cuda/kernel_model.h"
#include "tests/unit/probes/cuda/table.h"
#include "tests/unit/sanitized.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

// The live allocations against a model of the BPF programs.

namespace {

void run(unsigned seed, Losses losses) {
    CAPTURE(seed);
    Fixture fixture;
    KernelModel kernel(fixture, seed, losses);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 200; i++) {
            kernel.step();
            if (i % 50 == 49) {
                kernel.agree();
            }
        }
        kernel.come_to_rest();
        kernel.check();
    }
}

}  // namespace

TEST_CASE("the live allocations agree with the table again, whatever was lost") {
    const auto seed = static_cast<unsigned>(GENERATE(range(0, random_rounds(40))));
    run(seed, {.percent = seed % 3 == 0 ? 100U : 30U});
}

TEST_CASE("the live allocations agree with the table again, though frees went unseen, too") {
    run(static_cast<unsigned>(GENERATE(range(0, random_rounds(20)))),
        {.percent = 20, .replaces = true});
}

TEST_CASE("where nothing was lost, looking into the table changes no total") {
    run(static_cast<unsigned>(GENERATE(range(0, random_rounds(30)))), {});
}

// When the table of live allocations is read.

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

TEST_CASE("the table makes up for lost records") {
    Fixture fixture;
    fixture.allocations(process());
    const auto seen = allocation(0x1000, 1, 2'000);
    const auto freed_unseen = allocation(0x2000, 2, 2'001, MEMORY_managed);
    const auto unseen = allocation(0x3000, 4, 2'002, MEMORY_async, 1);
    const auto handle = allocation(0x3000, 8, 2'003, MEMORY_vmm);
    fixture.allocations(seen);
    fixture.allocations(freed_unseen);
    agree(fixture, Table().has_process().has(seen).has(unseen).has(handle));
    CHECK(fixture.page("cuda_memory_outstanding_bytes") ==
          Page{{{"python", "", "", "", "42", "4", "device"}, 1},
               {{"python", "", "", "", "42", "5", "async"}, 4},
               {{"python", "", "", "", "42", "4", "vmm"}, 8}});
    CHECK(fixture.sum("cuda_memory_allocations_total") == 4);
    CHECK(fixture.page("cuda_memory_freed_bytes_total") ==
          Page{{{"python", "", "", "", "4", "managed"}, 2}});

    SECTION("once") {
        agree(fixture, Table().has_process().has(seen).has(unseen).has(handle));
        CHECK(fixture.sum("cuda_memory_allocations_total") == 4);
        CHECK(fixture.sum("cuda_memory_frees_total") == 1);
    }
    SECTION("and what it made up for is freed like anything else") {
        fixture.allocations(release(unseen, 200 * second_ns));
        fixture.allocations(release(handle, 200 * second_ns));
        fixture.apply_all();
        CHECK(outstanding(fixture) == 1);
        CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 14);
        CHECK(fixture.sum("cuda_memory_allocations_total") == 4);
    }
    SECTION("and a record that was only late changes nothing") {
        fixture.allocations(unseen);
        fixture.apply_all();
        CHECK(outstanding(fixture) == 13);
        CHECK(fixture.sum("cuda_memory_allocations_total") == 4);
    }
}

TEST_CASE("an allocation at an address that was freed unseen is told from the former one") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 1, 2'000));
    agree(fixture, Table().has_process().has(allocation(0x1000, 4, 3'000)));
    CHECK(outstanding(fixture) == 4);
    CHECK(fixture.sum("cuda_memory_allocated_bytes_total") == 5);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 1);
}

TEST_CASE("what happens while the table is read stays as the records say") {
    Fixture fixture;
    fixture.allocations(process());
    const auto freed = allocation(0x1000, 1, 2'000);
    const auto freed_unseen_before = allocation(0x2000, 2, 2'001);
    const auto fresh = allocation(0x3000, 4, (100 * second_ns) + 5);
    fixture.allocations(freed);
    fixture.apply_all();
    fixture.aggregator->watch_ends();
    const Table table = Table().has_process().has(freed).has(freed_unseen_before);
    SECTION("an allocation that the table does not have yet") {
        fixture.allocations(fresh);
        fixture.apply_all();
        fixture.aggregator->reconcile(table);
        CHECK(outstanding(fixture) == 7);
        CHECK_FALSE(fixture.aggregator->wants_reconciling());
        CHECK(fixture.page("cuda_memory_frees_total").empty());
    }
    SECTION("frees of what the table still has") {
        fixture.allocations(release(freed, (100 * second_ns) + 5));
        fixture.allocations(release(freed_unseen_before, (100 * second_ns) + 6));
        fixture.apply_all();
        fixture.aggregator->reconcile(table);
        CHECK(outstanding(fixture) == 0);
        CHECK(fixture.sum("cuda_memory_allocated_bytes_total") == 3);
        CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 3);
    }
    SECTION("a reset of what the table still has") {
        fixture.allocations(reset(0, (100 * second_ns) + 5));
        fixture.apply_all();
        fixture.forgotten.clear();
        fixture.aggregator->reconcile(table);
        CHECK(outstanding(fixture) == 0);
        CHECK(fixture.forgotten.size() == 2);
    }
    SECTION("but frees before that say nothing about what comes later") {
        fixture.aggregator->reconcile(table);
        fixture.allocations(release(freed, (100 * second_ns) + 5));
        fixture.apply_all();
        const auto again = allocation(0x1000, 16, (100 * second_ns) + 6);
        agree(fixture, Table(200s).has_process().has(again).has(freed_unseen_before));
        CHECK(outstanding(fixture) == 18);
    }
}

TEST_CASE("a free that is under way while the table is read is one free") {
    Fixture fixture;
    fixture.allocations(process());
    const auto seen = allocation(0x1000, 1, 2'000);
    const auto unseen = allocation(0x2000, 2, 2'001);
    fixture.allocations(seen);
    agree(fixture, Table().has_process());  // both have left the table: their frees have begun
    fixture.allocations(release(seen, 101 * second_ns));
    fixture.allocations(release(unseen, 101 * second_ns));
    fixture.apply_all();
    CHECK(outstanding(fixture) == 0);
    CHECK(fixture.sum("cuda_memory_allocated_bytes_total") == 3);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 3);
}

TEST_CASE("an allocation that is just being entered into the table is looked for once more") {
    Fixture fixture;
    fixture.allocations(process());
    const auto young = allocation(0x1000, 1, (100 * second_ns) - 1'000);
    fixture.allocations(young);
    agree(fixture, Table().has_process());
    CHECK(outstanding(fixture) == 1);
    CHECK(fixture.aggregator->wants_reconciling());
    SECTION("and is there") {
        agree(fixture, Table(101s).has_process().has(young));
        CHECK(outstanding(fixture) == 1);
        CHECK(fixture.page("cuda_memory_frees_total").empty());
    }
    SECTION("or is gone") {
        agree(fixture, Table(101s).has_process());
        CHECK(outstanding(fixture) == 0);
    }
    CHECK_FALSE(fixture.aggregator->wants_reconciling());
}

TEST_CASE("what ended processes left in the table is taken out of it") {
    Fixture fixture;
    fixture.allocations(process());
    const auto own = allocation(0x1000, 1, 2'000);
    const auto of_reused_pid = of(bench_pid, 77, allocation(0x2000, 2, 2'000));
    const auto of_unknown = of(99, 77, allocation(0x3000, 4, 2'000, MEMORY_vmm));
    Table table = Table().has_process().has(own).has(of_reused_pid).has(of_unknown);
    agree(fixture, table);
    CHECK(outstanding(fixture) == 1);
    REQUIRE(fixture.forgotten.size() == 2);
    CHECK(fixture.forgotten[0].key.since_ns == 77);
    CHECK(fixture.forgotten[1].key.tgid == 99);
    CHECK(fixture.forgotten[1].key.space == CUDA_LIVE_HANDLES);

    SECTION("also of one that ended while the table was read") {
        fixture.forgotten.clear();
        fixture.aggregator->watch_ends();
        fixture.allocations(exited(101 * second_ns));
        fixture.apply_all();
        CHECK(fixture.forgotten.size() == 1);
        table = Table(101s).has_process().has(own).has(allocation(0x4000, 8, 3'000));
        fixture.aggregator->reconcile(table);
        CHECK(fixture.forgotten.size() == 3);
        CHECK(fixture.page("cuda_memory_outstanding_bytes").empty());
        CHECK(fixture.sum("cuda_memory_allocations_total") == 1);
    }
}

TEST_CASE("what a reset took is in the table until the exporter has heard of it") {
    Fixture fixture;
    fixture.allocations(process());
    Table table;
    table.has_process();
    table.processes[bench_pid].reset_ns[0] = 5'000;
    auto in_context = allocation(0x4000, 8, 2'000);
    in_context.context = 0xc;
    table.has(allocation(0x1000, 1, 5'000))
        .has(allocation(0x2000, 2, 5'001))
        .has(allocation(0x3000, 4, 2'000, MEMORY_device, 1))
        .has(in_context)
        .has(allocation(0x5000, 16, 2'000, MEMORY_vmm))
        .has(allocation(0x6000, 32, 2'000, MEMORY_device, CUDA_DEVICE_UNKNOWN))
        .has(allocation(0x7000, 64, 2'000, MEMORY_device, CUDA_DEVICE_UNCHOSEN));
    agree(fixture, table);
    CHECK(outstanding(fixture) == 2 + 4 + 8 + 16 + 32);
    REQUIRE(fixture.forgotten.size() == 2);
    CHECK(fixture.forgotten[0].key.address == 0x1000);
    CHECK(fixture.forgotten[0].born_ns == 5'000);
    CHECK(fixture.forgotten[1].key.address == 0x7000);
}

TEST_CASE("what was lost of a context that is destroyed does not come back") {
    Fixture fixture;
    fixture.allocations(process());
    auto unseen = allocation(0x1000, 1, 2'000);
    unseen.context = 0xc;
    auto later = allocation(0x2000, 2, 4'000);  // in the next context of the same handle
    later.context = 0xc;
    fixture.allocations(reset(0, 3'000, 0xc));
    fixture.apply_all();
    agree(fixture, Table().has_process().has(unseen).has(later));
    CHECK(outstanding(fixture) == 2);
    REQUIRE(fixture.forgotten.size() == 1);
    CHECK(fixture.forgotten[0].key.address == 0x1000);
}

TEST_CASE("an exporter that starts on an older table has what is allocated and counts nothing") {
    Fixture fixture({.started = 50s});
    const auto old = allocation(0x1000, 1, 2'000);
    const auto old_and_freed = allocation(0x2000, 2, 2'000);
    const auto recent = allocation(0x3000, 4, 60 * second_ns);
    agree(fixture, Table().has_process().has(old).has(recent));
    CHECK(outstanding(fixture) == 5);
    CHECK(fixture.sum("cuda_memory_allocated_bytes_total") == 4);
    fixture.allocations(release(old, 101 * second_ns));
    fixture.allocations(release(old_and_freed, 101 * second_ns));
    fixture.apply_all();
    CHECK(outstanding(fixture) == 4);
    CHECK(fixture.sum("cuda_memory_allocated_bytes_total") == 4);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 3);
    CHECK(fixture.page("cuda_memory_untracked_frees_total").empty());
}

TEST_CASE("handles that other processes gave are no allocations, and mappings none either") {
    Fixture fixture;
    fixture.allocations(process());
    Table table;
    table.has_process().has(allocation(0x5, 100, 2'000, MEMORY_vmm));
    table.entries[0].second.imported = 1;
    cuda_live mapped{};
    mapped.bytes = 0x1000;
    mapped.context = 0x5;
    table.entries.emplace_back(cuda_live_key{0x10000, bench_since, bench_pid, CUDA_LIVE_MAPPINGS},
                               mapped);
    agree(fixture, table);
    CHECK(outstanding(fixture) == 0);
    CHECK(fixture.page("cuda_memory_allocations_total").empty());
    fixture.calls(copy(0x10800, 0x70000, 8, COPY_DEFAULT, 101 * second_ns));
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2d"}) == 8);
    fixture.allocations(exited(102 * second_ns));
    fixture.apply_all();
    CHECK(fixture.aggregator->wants_reconciling());
    agree(fixture, Table(103s).has(allocation(0x5, 100, 2'000, MEMORY_vmm)));
    CHECK(fixture.forgotten.size() == 1);
    CHECK_FALSE(fixture.aggregator->wants_reconciling());
}

TEST_CASE("a mapping that ended while the table was read is not taken from it") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(mapping(CUDA_RECORD_MAP, 0x10000, 0x1000, 2'000));
    fixture.apply_all();
    cuda_live mapped{};
    mapped.bytes = 0x1000;
    mapped.born_ns = 2'000;
    Table table;
    table.has_process();
    table.entries.emplace_back(cuda_live_key{0x10000, bench_since, bench_pid, CUDA_LIVE_MAPPINGS},
                               mapped);
    fixture.aggregator->watch_ends();
    fixture.allocations(mapping(CUDA_RECORD_UNMAP, 0x10000, 0x1000, 5'000));
    fixture.apply_all();
    fixture.aggregator->reconcile(table);
    fixture.calls(copy(0x10800, 0x70000, 8, COPY_DEFAULT, 6'000));
    fixture.apply_all();
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2h"}) == 8);
}

TEST_CASE("a process that is known from the table only is a process") {
    Fixture fixture;
    auto own = of(77, 5'000, allocation(0x1000, 1, 6'000));
    own.stack = 3;
    own.python = 9;
    agree(fixture, Table().has_process(77, 5'000).has_process(78, 5'000).has(own));
    CHECK(fixture.aggregator->running().size() == 2);
    CHECK(fixture.sum("cuda_memory_outstanding_bytes", {"unknown", "77"}) == 1);
    CHECK(fixture.sum("process_info", {"78", "unknown"}) == 1);
    REQUIRE(fixture.asked_sites.size() == 1);
    CHECK(fixture.asked_sites[0].site == Site{3, 0, 9});
}

TEST_CASE("the table says nothing of what it had no room for") {
    Fixture fixture;
    fixture.allocations(process());
    auto unlisted = allocation(0x1000, 1, 2'000);
    unlisted.flags = CUDA_ALLOCATION_UNTABLED;
    fixture.allocations(unlisted);
    fixture.allocations(allocation(0x2000, 2, 2'000));
    agree(fixture, Table().has_process());
    CHECK(outstanding(fixture) == 1);
    CHECK(fixture.sum("cuda_memory_frees_total") == 1);
}
