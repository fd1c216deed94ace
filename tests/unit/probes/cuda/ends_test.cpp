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

void agree(Fixture &fixture, const EndedTable &table) {
    fixture.aggregator->watch_ends();
    fixture.apply_all();
    fixture.aggregator->reconcile(table);
}

std::uint64_t unfreed(const Fixture &fixture) {
    return fixture.sum("cuda_memory_unfreed_at_exit_bytes_total");
}

std::size_t forgotten(const Fixture &fixture, std::uint32_t space) {
    return static_cast<std::size_t>(std::ranges::count_if(
        fixture.forgotten, [&](const LiveEntry &entry) { return entry.key.space == space; }));
}

}  // namespace

TEST_CASE("what an ended process held is handed over by GPU, without memory of the host") {
    Fixture fixture;
    fixture.allocations(process());
    for (std::uint16_t kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
        fixture.allocations(
            allocation(0x1000U * (kind + 1U), 1U << kind, 2'000U + kind, kind, kind % 2));
    }
    fixture.complete = false;
    fixture.allocations(exited(exit_ns, 0));
    fixture.apply_all();
    REQUIRE(fixture.ends.size() == 1);
    CHECK(fixture.ends[0].ended == std::chrono::nanoseconds(exit_ns));
    CHECK(fixture.ends[0].is_complete);  // as it was while the process ran
    const std::uint64_t all = (1U << MEMORY_KIND_COUNT) - 1;
    const std::uint64_t of_host = 1U << MEMORY_pinned_host;
    CHECK(fixture.ends[0].device_bytes.at("4") + fixture.ends[0].device_bytes.at("5") ==
          all - of_host);
    CHECK(fixture.ends[0].device_bytes.at("5") == 1U << MEMORY_async);
}

TEST_CASE("what a process with losses left unfreed is counted from the table") {
    Fixture fixture;
    fixture.allocations(process());
    const auto kept = allocation(0x1000, 1, 2'000);
    const auto freed_unseen = allocation(0x2000, 2, 2'001);
    const auto unseen = allocation(0x3000, 4, exit_ns - 1);
    fixture.allocations(kept);
    fixture.allocations(freed_unseen);
    fixture.allocations(exited(exit_ns, 2));
    fixture.apply_all();
    CHECK(fixture.page("cuda_memory_outstanding_bytes").empty());
    CHECK(fixture.page("cuda_memory_unfreed_at_exit_bytes_total").empty());
    CHECK(fixture.aggregator->wants_reconciling());
    CHECK(fixture.ends.empty());
    fixture.aggregator->tidy(51s);

    SECTION("of one that is younger than its end") {
        agree(fixture, EndedTable(50s).has(kept).has_ended());
        CHECK(fixture.page("cuda_memory_unfreed_at_exit_bytes_total").empty());
        CHECK(fixture.forgotten.empty());
        CHECK(fixture.aggregator->wants_reconciling());
    }
    agree(fixture, EndedTable(51s).has(kept).has(unseen).has_ended());
    CHECK(unfreed(fixture) == 5);
    REQUIRE(fixture.ends.size() == 1);
    CHECK(fixture.ends[0].key == ProcessKey{bench_pid, bench_since});
    CHECK(fixture.ends[0].device_bytes == std::map<std::string, std::uint64_t>{{"4", 5}});
    CHECK(fixture.sum("cuda_memory_unfreed_at_exit_allocations_total") == 2);
    CHECK(fixture.sum("cuda_memory_allocated_bytes_total") == 7);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 2);
    CHECK(forgotten(fixture, CUDA_LIVE_ENDED) == 1);
    CHECK(forgotten(fixture, CUDA_LIVE_MEMORY) >= 2);
    CHECK_FALSE(fixture.aggregator->wants_reconciling());

    fixture.aggregator->tidy(52s);
    agree(fixture, EndedTable(53s));
    CHECK(unfreed(fixture) == 5);
}

TEST_CASE("a process without losses is counted at once") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 1, 2'000));
    fixture.allocations(exited(exit_ns));
    fixture.apply_all();
    CHECK(unfreed(fixture) == 1);
}

TEST_CASE("an end whose record was lost is known from the table") {
    Fixture fixture;
    fixture.allocations(process());
    const auto kept = allocation(0x1000, 1, 2'000);
    fixture.allocations(kept);
    SECTION("of those that ended") {
        agree(fixture, EndedTable(100s).has(kept).has_ended());
    }
    SECTION("of those that run, at the second look") {
        agree(fixture, EndedTable(100s).has(kept));
        CHECK(fixture.page("cuda_memory_outstanding_bytes").empty());
        CHECK(fixture.page("cuda_memory_unfreed_at_exit_bytes_total").empty());
        CHECK(fixture.forgotten.empty());
        agree(fixture, EndedTable(101s).has(kept));
    }
    CHECK(unfreed(fixture) == 1);
}

TEST_CASE("where the table cannot be read, an end is counted without it after a while") {
    Fixture fixture;
    fixture.allocations(process());
    fixture.allocations(allocation(0x1000, 1, 2'000));
    fixture.allocations(exited(exit_ns, 1));
    fixture.apply_all();
    fixture.aggregator->tidy(std::chrono::nanoseconds(exit_ns) + 10min);
    CHECK(fixture.page("cuda_memory_unfreed_at_exit_bytes_total").empty());
    fixture.aggregator->tidy(std::chrono::nanoseconds(exit_ns) + 10min + 1ns);
    CHECK(unfreed(fixture) == 1);
}

TEST_CASE("a process that is older than the exporter is counted from the table") {
    Fixture fixture({.started = 10s});
    const auto before = allocation(0x1000, 1, 2'000);
    const auto since = allocation(0x2000, 2, 20 * second_ns);
    fixture.allocations(process());
    fixture.allocations(since);
    fixture.allocations(exited(exit_ns));
    fixture.apply_all();
    agree(fixture, EndedTable(51s).has(before).has(since));
    CHECK(unfreed(fixture) == 3);
    CHECK(fixture.sum("cuda_memory_allocated_bytes_total") == 2);
}

TEST_CASE("what is left of an unmapped range is ended by the table") {
    Fixture fixture;
    fixture.allocations(process());
    EndedTable table;
    table.runs();
    for (std::uint64_t i = 0; i < 6; i++) {
        const auto handle = allocation(100 + i, 10, 1'000 + i, MEMORY_vmm);
        fixture.allocations(handle);
        table.has(handle, CUDA_ONE_MAPPING);
        // The fifth was mapped after the range was unmapped; of the sixth we know it already.
        table.maps(0x1000 + (0x100 * i), 0x100, 100 + i, i == 4 ? 9'000 : 1'500, i == 5);
    }
    auto unmap = mapping(CUDA_RECORD_UNMAP, 0x1000, 0x500, 5'000);
    unmap.is_unfinished = 1;
    fixture.allocations(unmap);
    fixture.apply_all();
    CHECK(fixture.aggregator->wants_reconciling());
    agree(fixture, table.unmapped(0x1100, 0x1600, 5'000));
    std::vector<std::uint64_t> ended;
    for (const LiveEntry &entry : fixture.unmapped) {
        CHECK(entry.born_ns == 1'500);
        ended.push_back(entry.key.address);
    }
    CHECK(ended == std::vector<std::uint64_t>{0x1100, 0x1200, 0x1300});
    CHECK(forgotten(fixture, CUDA_LIVE_MAPPINGS) == 4);
    CHECK(forgotten(fixture, CUDA_LIVE_UNMAPS) == 1);
    CHECK(fixture.sum("cuda_memory_outstanding_bytes") == 60);  // their frees come as records
}

TEST_CASE("what is left of an unmapped range at a process's end counts as freed") {
    Fixture fixture;
    fixture.allocations(process());
    const auto first = allocation(100, 10, 1'000, MEMORY_vmm);
    const auto second = allocation(101, 20, 1'001, MEMORY_vmm);
    fixture.allocations(first);
    fixture.allocations(second);
    auto unmap = mapping(CUDA_RECORD_UNMAP, 0x1000, 0x200, 5'000);
    unmap.is_unfinished = 1;
    fixture.allocations(unmap);
    fixture.allocations(exited(exit_ns));
    fixture.apply_all();
    agree(fixture, EndedTable()
                       .has(first, CUDA_ONE_MAPPING)
                       .has(second, CUDA_ONE_MAPPING + CUDA_ONE_REFERENCE)
                       .maps(0x1000, 0x100, 100, 1'500)
                       .maps(0x1100, 0x100, 101, 1'500)
                       .unmapped(0x1000, 0x1200, 5'000));
    CHECK(unfreed(fixture) == 20);
    CHECK(fixture.sum("cuda_memory_freed_bytes_total") == 10);
    CHECK(fixture.unmapped.empty());
    CHECK_FALSE(fixture.aggregator->wants_reconciling());
}
