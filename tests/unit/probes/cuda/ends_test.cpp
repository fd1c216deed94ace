// The ends of processes of whose memory records were lost, and of ranges that were unmapped.
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <string>

#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t exit_ns = 50 * second_ns;

struct EndedTable : LiveTable {
    explicit EndedTable(std::chrono::nanoseconds at = 100s) { since = at; }

    EndedTable &runs() {
        processes[bench_pid].since_ns = bench_since;
        return *this;
    }
    EndedTable &has_ended(std::uint64_t at = exit_ns) {
        cuda_live_process state{};
        state.since_ns = bench_since;
        state.ended_ns = at;
        ended[{bench_pid, bench_since}] = state;
        return *this;
    }
    EndedTable &add(std::uint64_t address, std::uint32_t space, cuda_live live) {
        entries.emplace_back(cuda_live_key{address, bench_since, bench_pid, space}, live);
        return *this;
    }
    EndedTable &has(const cuda_allocation_record &of, std::uint64_t uses = CUDA_ONE_REFERENCE) {
        cuda_live live{};
        live.bytes = of.bytes;
        live.born_ns = of.born_ns;
        live.uses = uses;
        live.device = of.head.device;
        live.stack = of.stack;
        live.kind = of.kind;
        return add(of.address, of.kind == MEMORY_vmm ? CUDA_LIVE_HANDLES : CUDA_LIVE_MEMORY, live);
    }
    EndedTable &maps(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle,
                     std::uint64_t at, bool was_ended = false) {
        cuda_live live{};
        live.bytes = bytes;
        live.born_ns = at;
        live.context = handle;
        live.caller = 900 + handle;  // when it was born
        live.uses = was_ended ? 1 : 0;
        return add(address, CUDA_LIVE_MAPPINGS, live);
    }
    EndedTable &unmapped(std::uint64_t from, std::uint64_t until, std::uint64_t at) {
        cuda_live live{};
        live.born_ns = at;
        live.context = from;
        live.caller = until;
        return add(at, CUDA_LIVE_UNMAPS, live);
    }
};

void agree(Fixture &bench, const EndedTable &table) {
    bench.aggregator->watch_ends();
    bench.apply_all();
    bench.aggregator->reconcile(table);
}

std::uint64_t unfreed(const Fixture &bench) {
    return bench.sum("cuda_memory_unfreed_at_exit_bytes_total");
}

std::size_t forgotten(const Fixture &bench, std::uint32_t space) {
    return static_cast<std::size_t>(std::ranges::count_if(
        bench.forgotten, [&](const LiveEntry &entry) { return entry.key.space == space; }));
}

}  // namespace

TEST_CASE("what an ended process held is handed over by GPU, without memory of the host") {
    Fixture bench;
    bench.allocations(process());
    for (std::uint16_t kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
        bench.allocations(
            allocation(0x1000U * (kind + 1U), 1U << kind, 2'000U + kind, kind, kind % 2));
    }
    bench.complete = false;
    bench.allocations(exited(exit_ns, 0));
    bench.apply_all();
    REQUIRE(bench.ends.size() == 1);
    CHECK(bench.ends[0].ended == std::chrono::nanoseconds(exit_ns));
    CHECK(bench.ends[0].is_complete);  // as it was while the process ran
    const std::uint64_t all = (1U << MEMORY_KIND_COUNT) - 1;
    const std::uint64_t of_host = 1U << MEMORY_pinned_host;
    CHECK(bench.ends[0].device_bytes.at("4") + bench.ends[0].device_bytes.at("5") == all - of_host);
    CHECK(bench.ends[0].device_bytes.at("5") == 1U << MEMORY_async);
}

TEST_CASE("what a process with losses left unfreed is counted from the table") {
    Fixture bench;
    bench.allocations(process());
    const auto kept = allocation(0x1000, 1, 2'000);
    const auto freed_unseen = allocation(0x2000, 2, 2'001);
    const auto unseen = allocation(0x3000, 4, exit_ns - 1);
    bench.allocations(kept);
    bench.allocations(freed_unseen);
    bench.allocations(exited(exit_ns, 2));
    bench.apply_all();
    CHECK(bench.page("cuda_memory_outstanding_bytes").empty());
    CHECK(bench.page("cuda_memory_unfreed_at_exit_bytes_total").empty());
    CHECK(bench.aggregator->wants_reconciling());
    CHECK(bench.ends.empty());
    bench.aggregator->tidy(51s);

    SECTION("of one that is younger than its end") {
        agree(bench, EndedTable(50s).has(kept).has_ended());
        CHECK(bench.page("cuda_memory_unfreed_at_exit_bytes_total").empty());
        CHECK(bench.forgotten.empty());
        CHECK(bench.aggregator->wants_reconciling());
    }
    agree(bench, EndedTable(51s).has(kept).has(unseen).has_ended());
    CHECK(unfreed(bench) == 5);
    REQUIRE(bench.ends.size() == 1);
    CHECK(bench.ends[0].key == ProcessKey{bench_pid, bench_since});
    CHECK(bench.ends[0].device_bytes == std::map<std::string, std::uint64_t>{{"4", 5}});
    CHECK(bench.sum("cuda_memory_unfreed_at_exit_allocations_total") == 2);
    CHECK(bench.sum("cuda_memory_allocated_bytes_total") == 7);
    CHECK(bench.sum("cuda_memory_freed_bytes_total") == 2);
    CHECK(forgotten(bench, CUDA_LIVE_ENDED) == 1);
    CHECK(forgotten(bench, CUDA_LIVE_MEMORY) >= 2);
    CHECK_FALSE(bench.aggregator->wants_reconciling());

    bench.aggregator->tidy(52s);
    agree(bench, EndedTable(53s));
    CHECK(unfreed(bench) == 5);
}

TEST_CASE("a process without losses is counted at once") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(allocation(0x1000, 1, 2'000));
    bench.allocations(exited(exit_ns));
    bench.apply_all();
    CHECK(unfreed(bench) == 1);
}

TEST_CASE("an end whose record was lost is known from the table") {
    Fixture bench;
    bench.allocations(process());
    const auto kept = allocation(0x1000, 1, 2'000);
    bench.allocations(kept);
    SECTION("of those that ended") {
        agree(bench, EndedTable(100s).has(kept).has_ended());
    }
    SECTION("of those that run, at the second look") {
        agree(bench, EndedTable(100s).has(kept));
        CHECK(bench.page("cuda_memory_outstanding_bytes").empty());
        CHECK(bench.page("cuda_memory_unfreed_at_exit_bytes_total").empty());
        CHECK(bench.forgotten.empty());
        agree(bench, EndedTable(101s).has(kept));
    }
    CHECK(unfreed(bench) == 1);
}

TEST_CASE("where the table cannot be read, an end is counted without it after a while") {
    Fixture bench;
    bench.allocations(process());
    bench.allocations(allocation(0x1000, 1, 2'000));
    bench.allocations(exited(exit_ns, 1));
    bench.apply_all();
    bench.aggregator->tidy(std::chrono::nanoseconds(exit_ns) + 10min);
    CHECK(bench.page("cuda_memory_unfreed_at_exit_bytes_total").empty());
    bench.aggregator->tidy(std::chrono::nanoseconds(exit_ns) + 10min + 1ns);
    CHECK(unfreed(bench) == 1);
}

TEST_CASE("a process that is older than the exporter is counted from the table") {
    Fixture bench({.started = 10s});
    const auto before = allocation(0x1000, 1, 2'000);
    const auto since = allocation(0x2000, 2, 20 * second_ns);
    bench.allocations(process());
    bench.allocations(since);
    bench.allocations(exited(exit_ns));
    bench.apply_all();
    agree(bench, EndedTable(51s).has(before).has(since));
    CHECK(unfreed(bench) == 3);
    CHECK(bench.sum("cuda_memory_allocated_bytes_total") == 2);
}

TEST_CASE("what is left of an unmapped range is ended by the table") {
    Fixture bench;
    bench.allocations(process());
    EndedTable table;
    table.runs();
    for (std::uint64_t i = 0; i < 6; i++) {
        const auto handle = allocation(100 + i, 10, 1'000 + i, MEMORY_vmm);
        bench.allocations(handle);
        table.has(handle, CUDA_ONE_MAPPING);
        // The fifth was mapped after the range was unmapped; of the sixth we know it already.
        table.maps(0x1000 + (0x100 * i), 0x100, 100 + i, i == 4 ? 9'000 : 1'500, i == 5);
    }
    auto unmap = mapping(CUDA_RECORD_UNMAP, 0x1000, 0x500, 5'000);
    unmap.is_unfinished = 1;
    bench.allocations(unmap);
    bench.apply_all();
    CHECK(bench.aggregator->wants_reconciling());
    agree(bench, table.unmapped(0x1100, 0x1600, 5'000));
    std::vector<std::uint64_t> ended;
    for (const LiveEntry &entry : bench.unmapped) {
        CHECK(entry.born_ns == 1'500);
        ended.push_back(entry.key.address);
    }
    CHECK(ended == std::vector<std::uint64_t>{0x1100, 0x1200, 0x1300});
    CHECK(forgotten(bench, CUDA_LIVE_MAPPINGS) == 4);
    CHECK(forgotten(bench, CUDA_LIVE_UNMAPS) == 1);
    CHECK(bench.sum("cuda_memory_outstanding_bytes") == 60);  // their frees come as records
}

TEST_CASE("what is left of an unmapped range at a process's end counts as freed") {
    Fixture bench;
    bench.allocations(process());
    const auto first = allocation(100, 10, 1'000, MEMORY_vmm);
    const auto second = allocation(101, 20, 1'001, MEMORY_vmm);
    bench.allocations(first);
    bench.allocations(second);
    auto unmap = mapping(CUDA_RECORD_UNMAP, 0x1000, 0x200, 5'000);
    unmap.is_unfinished = 1;
    bench.allocations(unmap);
    bench.allocations(exited(exit_ns));
    bench.apply_all();
    agree(bench, EndedTable()
                     .has(first, CUDA_ONE_MAPPING)
                     .has(second, CUDA_ONE_MAPPING + CUDA_ONE_REFERENCE)
                     .maps(0x1000, 0x100, 100, 1'500)
                     .maps(0x1100, 0x100, 101, 1'500)
                     .unmapped(0x1000, 0x1200, 5'000));
    CHECK(unfreed(bench) == 20);
    CHECK(bench.sum("cuda_memory_freed_bytes_total") == 10);
    CHECK(bench.unmapped.empty());
    CHECK_FALSE(bench.aggregator->wants_reconciling());
}
