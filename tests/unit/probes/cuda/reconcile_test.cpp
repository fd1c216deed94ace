// Our live allocations and the kernel's table of them, after records were lost.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/probes/cuda/table.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

TEST_CASE("the table makes up for lost records") {
    Fixture bench;
    bench.allocations(process());
    const auto seen = allocation(0x1000, 1, 2'000);
    const auto freed_unseen = allocation(0x2000, 2, 2'001, MEMORY_managed);
    const auto unseen = allocation(0x3000, 4, 2'002, MEMORY_async, 1);
    const auto handle = allocation(0x3000, 8, 2'003, MEMORY_vmm);
    bench.allocations(seen);
    bench.allocations(freed_unseen);
    agree(bench, Table().has_process().has(seen).has(unseen).has(handle));
    CHECK(bench.page("cuda_memory_outstanding_bytes") ==
          Page{{{"python", "", "", "", "42", "4", "device"}, 1},
               {{"python", "", "", "", "42", "5", "async"}, 4},
               {{"python", "", "", "", "42", "4", "vmm"}, 8}});
    CHECK(bench.sum("cuda_memory_allocations_total") == 4);
    CHECK(bench.page("cuda_memory_freed_bytes_total") ==
          Page{{{"python", "", "", "", "4", "managed"}, 2}});

    SECTION("once") {
        agree(bench, Table().has_process().has(seen).has(unseen).has(handle));
        CHECK(bench.sum("cuda_memory_allocations_total") == 4);
        CHECK(bench.sum("cuda_memory_frees_total") == 1);
    }
    SECTION("and what it made up for is freed like anything else") {
        bench.allocations(release(unseen, 200 * second_ns));
        bench.allocations(release(handle, 200 * second_ns));
        bench.apply_all();
        CHECK(outstanding(bench) == 1);
        CHECK(bench.sum("cuda_memory_freed_bytes_total") == 14);
        CHECK(bench.sum("cuda_memory_allocations_total") == 4);
    }
    SECTION("and a record that was only late changes nothing") {
        bench.allocations(unseen);
        bench.apply_all();
        CHECK(outstanding(bench) == 13);
        CHECK(bench.sum("cuda_memory_allocations_total") == 4);
    }
}

TEST_CASE("an allocation at an address that was freed unseen is told from the former one") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(allocation(0x1000, 1, 2'000));
    agree(bench, Table().has_process().has(allocation(0x1000, 4, 3'000)));
    CHECK(outstanding(bench) == 4);
    CHECK(bench.sum("cuda_memory_allocated_bytes_total") == 5);
    CHECK(bench.sum("cuda_memory_freed_bytes_total") == 1);
}

TEST_CASE("what happens while the table is read stays as the records say") {
    Fixture bench;
    bench.allocations(process());
    const auto freed = allocation(0x1000, 1, 2'000);
    const auto freed_unseen_before = allocation(0x2000, 2, 2'001);
    const auto fresh = allocation(0x3000, 4, (100 * second_ns) + 5);
    bench.allocations(freed);
    bench.apply_all();
    bench.aggregator->watch_ends();
    const Table table = Table().has_process().has(freed).has(freed_unseen_before);
    SECTION("an allocation that the table does not have yet") {
        bench.allocations(fresh);
        bench.apply_all();
        bench.aggregator->reconcile(table);
        CHECK(outstanding(bench) == 7);
        CHECK_FALSE(bench.aggregator->wants_reconciling());
        CHECK(bench.page("cuda_memory_frees_total").empty());
    }
    SECTION("frees of what the table still has") {
        bench.allocations(release(freed, (100 * second_ns) + 5));
        bench.allocations(release(freed_unseen_before, (100 * second_ns) + 6));
        bench.apply_all();
        bench.aggregator->reconcile(table);
        CHECK(outstanding(bench) == 0);
        CHECK(bench.sum("cuda_memory_allocated_bytes_total") == 3);
        CHECK(bench.sum("cuda_memory_freed_bytes_total") == 3);
    }
    SECTION("a reset of what the table still has") {
        bench.allocations(reset(0, (100 * second_ns) + 5));
        bench.apply_all();
        bench.forgotten.clear();
        bench.aggregator->reconcile(table);
        CHECK(outstanding(bench) == 0);
        CHECK(bench.forgotten.size() == 2);
    }
    SECTION("but frees before that say nothing about what comes later") {
        bench.aggregator->reconcile(table);
        bench.allocations(release(freed, (100 * second_ns) + 5));
        bench.apply_all();
        const auto again = allocation(0x1000, 16, (100 * second_ns) + 6);
        agree(bench, Table(200s).has_process().has(again).has(freed_unseen_before));
        CHECK(outstanding(bench) == 18);
    }
}

TEST_CASE("a free that is under way while the table is read is one free") {
    Fixture bench;
    bench.allocations(process());
    const auto seen = allocation(0x1000, 1, 2'000);
    const auto unseen = allocation(0x2000, 2, 2'001);
    bench.allocations(seen);
    agree(bench, Table().has_process());  // both have left the table: their frees have begun
    bench.allocations(release(seen, 101 * second_ns));
    bench.allocations(release(unseen, 101 * second_ns));
    bench.apply_all();
    CHECK(outstanding(bench) == 0);
    CHECK(bench.sum("cuda_memory_allocated_bytes_total") == 3);
    CHECK(bench.sum("cuda_memory_freed_bytes_total") == 3);
}

TEST_CASE("an allocation that is just being entered into the table is looked for once more") {
    Fixture bench;
    bench.allocations(process());
    const auto young = allocation(0x1000, 1, (100 * second_ns) - 1'000);
    bench.allocations(young);
    agree(bench, Table().has_process());
    CHECK(outstanding(bench) == 1);
    CHECK(bench.aggregator->wants_reconciling());
    SECTION("and is there") {
        agree(bench, Table(101s).has_process().has(young));
        CHECK(outstanding(bench) == 1);
        CHECK(bench.page("cuda_memory_frees_total").empty());
    }
    SECTION("or is gone") {
        agree(bench, Table(101s).has_process());
        CHECK(outstanding(bench) == 0);
    }
    CHECK_FALSE(bench.aggregator->wants_reconciling());
}

TEST_CASE("what ended processes left in the table is taken out of it") {
    Fixture bench;
    bench.allocations(process());
    const auto own = allocation(0x1000, 1, 2'000);
    const auto of_reused_pid = of(bench_pid, 77, allocation(0x2000, 2, 2'000));
    const auto of_unknown = of(99, 77, allocation(0x3000, 4, 2'000, MEMORY_vmm));
    Table table = Table().has_process().has(own).has(of_reused_pid).has(of_unknown);
    agree(bench, table);
    CHECK(outstanding(bench) == 1);
    REQUIRE(bench.forgotten.size() == 2);
    CHECK(bench.forgotten[0].key.since_ns == 77);
    CHECK(bench.forgotten[1].key.tgid == 99);
    CHECK(bench.forgotten[1].key.space == CUDA_LIVE_HANDLES);

    SECTION("also of one that ended while the table was read") {
        bench.forgotten.clear();
        bench.aggregator->watch_ends();
        bench.allocations(exited(101 * second_ns));
        bench.apply_all();
        CHECK(bench.forgotten.size() == 1);
        table = Table(101s).has_process().has(own).has(allocation(0x4000, 8, 3'000));
        bench.aggregator->reconcile(table);
        CHECK(bench.forgotten.size() == 3);
        CHECK(bench.page("cuda_memory_outstanding_bytes").empty());
        CHECK(bench.sum("cuda_memory_allocations_total") == 1);
    }
}

TEST_CASE("what a reset took is in the table until the exporter has heard of it") {
    Fixture bench;
    bench.allocations(process());
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
    agree(bench, table);
    CHECK(outstanding(bench) == 2 + 4 + 8 + 16 + 32);
    REQUIRE(bench.forgotten.size() == 2);
    CHECK(bench.forgotten[0].key.address == 0x1000);
    CHECK(bench.forgotten[0].born_ns == 5'000);
    CHECK(bench.forgotten[1].key.address == 0x7000);
}

TEST_CASE("what was lost of a context that is destroyed does not come back") {
    Fixture bench;
    bench.allocations(process());
    auto unseen = allocation(0x1000, 1, 2'000);
    unseen.context = 0xc;
    auto later = allocation(0x2000, 2, 4'000);  // in the next context of the same handle
    later.context = 0xc;
    bench.allocations(reset(0, 3'000, 0xc));
    bench.apply_all();
    agree(bench, Table().has_process().has(unseen).has(later));
    CHECK(outstanding(bench) == 2);
    REQUIRE(bench.forgotten.size() == 1);
    CHECK(bench.forgotten[0].key.address == 0x1000);
}

TEST_CASE("an exporter that starts on an older table has what is allocated and counts nothing") {
    Fixture bench({.started = 50s});
    const auto old = allocation(0x1000, 1, 2'000);
    const auto old_and_freed = allocation(0x2000, 2, 2'000);
    const auto recent = allocation(0x3000, 4, 60 * second_ns);
    agree(bench, Table().has_process().has(old).has(recent));
    CHECK(outstanding(bench) == 5);
    CHECK(bench.sum("cuda_memory_allocated_bytes_total") == 4);
    bench.allocations(release(old, 101 * second_ns));
    bench.allocations(release(old_and_freed, 101 * second_ns));
    bench.apply_all();
    CHECK(outstanding(bench) == 4);
    CHECK(bench.sum("cuda_memory_allocated_bytes_total") == 4);
    CHECK(bench.sum("cuda_memory_freed_bytes_total") == 3);
    CHECK(bench.page("cuda_memory_untracked_frees_total").empty());
}

TEST_CASE("handles that other processes gave are no allocations, and mappings none either") {
    Fixture bench;
    bench.allocations(process());
    Table table;
    table.has_process().has(allocation(0x5, 100, 2'000, MEMORY_vmm));
    table.entries[0].second.imported = 1;
    cuda_live mapped{};
    mapped.bytes = 0x1000;
    mapped.context = 0x5;
    table.entries.emplace_back(cuda_live_key{0x10000, bench_since, bench_pid, CUDA_LIVE_MAPPINGS},
                               mapped);
    agree(bench, table);
    CHECK(outstanding(bench) == 0);
    CHECK(bench.page("cuda_memory_allocations_total").empty());
    bench.calls(copy(0x10800, 0x70000, 8, COPY_DEFAULT, 101 * second_ns));
    bench.apply_all();
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"h2d"}) == 8);
    bench.allocations(exited(102 * second_ns));
    bench.apply_all();
    CHECK(bench.aggregator->wants_reconciling());
    agree(bench, Table(103s).has(allocation(0x5, 100, 2'000, MEMORY_vmm)));
    CHECK(bench.forgotten.size() == 1);
    CHECK_FALSE(bench.aggregator->wants_reconciling());
}

TEST_CASE("a mapping that ended while the table was read is not taken from it") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(mapping(CUDA_RECORD_MAP, 0x10000, 0x1000, 2'000));
    bench.apply_all();
    cuda_live mapped{};
    mapped.bytes = 0x1000;
    mapped.born_ns = 2'000;
    Table table;
    table.has_process();
    table.entries.emplace_back(cuda_live_key{0x10000, bench_since, bench_pid, CUDA_LIVE_MAPPINGS},
                               mapped);
    bench.aggregator->watch_ends();
    bench.allocations(mapping(CUDA_RECORD_UNMAP, 0x10000, 0x1000, 5'000));
    bench.apply_all();
    bench.aggregator->reconcile(table);
    bench.calls(copy(0x10800, 0x70000, 8, COPY_DEFAULT, 6'000));
    bench.apply_all();
    CHECK(bench.sum("cuda_memcpy_bytes_total", {"h2h"}) == 8);
}

TEST_CASE("a process that is known from the table only is a process") {
    Fixture bench;
    auto own = of(77, 5'000, allocation(0x1000, 1, 6'000));
    own.stack = 3;
    agree(bench, Table().has_process(77, 5'000).has_process(78, 5'000).has(own));
    CHECK(bench.aggregator->running().size() == 2);
    CHECK(bench.sum("cuda_memory_outstanding_bytes", {"unknown", "77"}) == 1);
    CHECK(bench.sum("process_info", {"78", "unknown"}) == 1);
    REQUIRE(bench.asked_sites.size() == 1);
    CHECK(bench.asked_sites[0].site == Site{3, 0});
}

TEST_CASE("the table says nothing of what it had no room for") {
    Fixture bench;
    bench.allocations(process());
    auto unlisted = allocation(0x1000, 1, 2'000);
    unlisted.flags = CUDA_ALLOCATION_UNTABLED;
    bench.allocations(unlisted);
    bench.allocations(allocation(0x2000, 2, 2'000));
    agree(bench, Table().has_process());
    CHECK(outstanding(bench) == 1);
    CHECK(bench.sum("cuda_memory_frees_total") == 1);
}
