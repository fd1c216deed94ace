// Memory, without the other parts of the aggregator: the accounting by records, and its correction
// by the kernel's table.
#include "exporter/probes/cuda/memory/accounting.h"

#include <catch2/catch_test_macros.hpp>

#include "exporter/probes/cuda/memory/reconcile.h"
#include "exporter/probes/cuda/memory/summary.h"
#include "tests/unit/probes/cuda/part_fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

struct MemoryFixture : PartFixture {
    std::vector<LiveEntry> forgotten;  // of the kernel's table
    MemoryAccounting memory{families, processes, callbacks, 0s};
    Reconciler reconciler{memory, processes, callbacks};

    MemoryFixture() : PartFixture([this](Process &process) { memory.started(process); }) {
        callbacks.forget_live = [this](auto entries) {
            forgotten.insert(forgotten.end(), entries.begin(), entries.end());
            return std::vector<LiveEntry>();
        };
    }
    [[nodiscard]] Amount outstanding() const {
        Amount sum;
        for (const ProcessAllocations &process : memory_allocations(processes)) {
            sum.bytes += process.amount.bytes;
            sum.count += process.amount.count;
        }
        return sum;
    }
    [[nodiscard]] LiveTable table(std::initializer_list<cuda_allocation_record> live) const {
        LiveTable table{.since = 100s, .entries = {}, .processes = {}};
        table.processes[bench_pid].since_ns = bench_since;
        for (const auto &of : live) {
            cuda_live entry{};
            entry.bytes = of.bytes;
            entry.born_ns = of.born_ns;
            entry.stack = -1;
            table.entries.emplace_back(
                cuda_live_key{of.address, bench_since, bench_pid, CUDA_LIVE_MEMORY}, entry);
        }
        return table;
    }
};

}  // namespace

TEST_CASE("the part of memory counts allocations and frees, and knows what is live") {
    MemoryFixture fixture;
    Process &process = fixture.process();
    const auto one = allocation(0x1000, 100, 2'000);
    fixture.memory.apply(process, one);
    fixture.memory.apply(process, allocation(0x2000, 7, 2'001, MEMORY_pinned_host));
    CHECK(fixture.outstanding() == Amount{107, 2});
    CHECK(MemoryAccounting::is_on_device(process, 0x1010));
    CHECK_FALSE(MemoryAccounting::is_on_device(process, 0x2000));
    CHECK_FALSE(MemoryAccounting::is_on_device(fixture.process(43), 0x1010));
    fixture.memory.apply(process, release(one, 3'000));
    fixture.memory.apply(process, unknown_release(0x9000, 3'000));
    CHECK(fixture.outstanding() == Amount{7, 1});
    CHECK(fixture.sum("cuda_memory_allocations_total") == 2);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total", {"device"}) == 100);
    CHECK(fixture.sum("cuda_memory_untracked_frees_total") == 1);
    CHECK(fixture.page("cuda_memcpy_total").empty());
}

TEST_CASE("the part of memory frees what a reset took, and maps what has a handle") {
    MemoryFixture fixture;
    Process &process = fixture.process();
    fixture.memory.apply(process, allocation(0x1000, 100, 2'000));
    fixture.memory.apply(process, allocation(0x2000, 30, 2'001, MEMORY_device, 1));
    fixture.memory.apply(process, mapping(CUDA_RECORD_MAP, 0x8000, 0x1000, 2'500));
    CHECK(MemoryAccounting::is_on_device(process, 0x8800));
    fixture.memory.apply(process, reset(0, 3'000));
    CHECK(fixture.outstanding() == Amount{30, 1});
    REQUIRE(fixture.forgotten.size() == 1);
    CHECK(fixture.forgotten[0].key.address == 0x1000);
    fixture.memory.apply(process, mapping(CUDA_RECORD_UNMAP, 0x8000, 0x1000, 3'500));
    CHECK_FALSE(MemoryAccounting::is_on_device(process, 0x8800));
}

TEST_CASE("the part of memory counts what an ended process had, at once or from the table") {
    MemoryFixture fixture;
    Process &process = fixture.process();
    fixture.memory.apply(process, allocation(0x1000, 100, 2'000));
    process.ended = 5s;
    SECTION("at once where nothing was lost") {
        fixture.memory.ended(process, false);
        CHECK(MemoryAccounting::is_done_with(process));
        CHECK(fixture.sum("cuda_memory_unfreed_at_exit_bytes_total") == 100);
        CHECK_FALSE(fixture.memory.wants_reconciling());
        CHECK(fixture.forgotten.size() == 1);
    }
    SECTION("from the table where records may be missing") {
        fixture.memory.ended(process, true);
        CHECK_FALSE(MemoryAccounting::is_done_with(process));
        CHECK(fixture.memory.wants_reconciling());
        CHECK(fixture.page("cuda_memory_unfreed_at_exit_bytes_total").empty());
        fixture.memory.watch_ends();
        fixture.memory.stop_wanting();
        fixture.reconciler.reconcile(
            fixture.table({allocation(0x1000, 100, 2'000), allocation(0x2000, 7, 2'500)}));
        CHECK(MemoryAccounting::is_done_with(process));
        CHECK(fixture.sum("cuda_memory_unfreed_at_exit_bytes_total") == 107);
        CHECK_FALSE(fixture.memory.wants_reconciling());
    }
    SECTION("without the table where that cannot be read for too long") {
        fixture.memory.ended(process, true);
        fixture.memory.tidy(605s, 600s);
        CHECK_FALSE(MemoryAccounting::is_done_with(process));
        fixture.memory.tidy(606s, 600s);
        CHECK(MemoryAccounting::is_done_with(process));
        CHECK(fixture.sum("cuda_memory_unfreed_at_exit_bytes_total") == 100);
        CHECK(process.ended == 606s);  // the retention begins here
    }
}

TEST_CASE("the kernel's table adds allocations and takes some away, but no frees of the meantime") {
    MemoryFixture fixture;
    Process &process = fixture.process();
    const auto lost = allocation(0x1000, 100, 2'000);
    const auto freed = allocation(0x2000, 30, 2'001);
    const auto gone = allocation(0x3000, 5, 2'002);
    const auto younger = allocation(0x4000, 1, 200 * second_ns);
    fixture.memory.apply(process, freed);
    fixture.memory.apply(process, gone);
    fixture.memory.apply(process, younger);
    fixture.memory.watch_ends();
    const LiveTable table = fixture.table({lost, freed});
    fixture.memory.apply(process, release(freed, 150 * second_ns));
    fixture.reconciler.reconcile(table);
    CHECK(fixture.outstanding() == Amount{101, 2});
    CHECK(fixture.sum("cuda_memory_frees_total") == 2);
    fixture.memory.apply(process, release(gone, 160 * second_ns));  // its record was only late
    CHECK(fixture.sum("cuda_memory_frees_total") == 2);
    CHECK(fixture.sum("cuda_memory_allocations_total") == 4);
}

TEST_CASE("an unfinished unmap keeps the end of its process for the table") {
    MemoryFixture fixture;
    Process &process = fixture.process();
    auto unmap = mapping(CUDA_RECORD_UNMAP, 0x8000, 0x1000, 3'500);
    unmap.is_unfinished = 1;
    fixture.memory.apply(process, unmap);
    CHECK(fixture.memory.wants_reconciling());
    process.ended = 5s;
    fixture.memory.ended(process, false);
    CHECK_FALSE(MemoryAccounting::is_done_with(process));
}
