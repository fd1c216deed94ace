// What several probes cost a process, from their tables in the kernel.
#include "exporter/probes/frame/bpf/overhead_limits.h"

#include <bpf/bpf.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "bpf/lib/processes/process.h"
#include "tests/harness/exporter.h"

using namespace gpusnoop;
using namespace std::chrono_literals;

namespace {

template <std::size_t value_bytes>
struct Table {
    Fd map{
        bpf_map_create(BPF_MAP_TYPE_HASH, "costs", sizeof(std::uint32_t), value_bytes, 8, nullptr)};

    void set(std::uint32_t tgid, std::uint64_t cost_ns) const {
        process_entry entry{};
        entry.cost_ns = cost_ns;
        std::array<std::byte, value_bytes> value{};
        std::memcpy(value.data(), &entry, sizeof(entry));
        REQUIRE(bpf_map_update_elem(map.get(), &tgid, value.data(), BPF_ANY) == 0);
    }
};

}  // namespace

TEST_CASE("a process costs what all tables say together", "[kernel]") {
    harness::require_bpf();
    probes::CostTables tables;
    CHECK(tables.cost_of(7) == 0ns);
    const Table<sizeof(process_entry)> small;
    {
        const Table<512> large;
        REQUIRE(tables.add(small.map.get()));
        REQUIRE(tables.add(large.map.get()));
        small.set(7, 1000);
        small.set(8, 5);
        large.set(7, 30);
    }  // the tables stay
    CHECK(tables.cost_of(7) == 1030ns);
    CHECK(tables.cost_of(8) == 5ns);
    CHECK(tables.cost_of(9) == 0ns);
    small.set(7, 0);
    CHECK(tables.cost_of(7) == 30ns);
}

TEST_CASE("a table of other values is refused", "[kernel]") {
    harness::require_bpf();
    probes::CostTables tables;
    const int other = bpf_map_create(BPF_MAP_TYPE_HASH, "other", 4, 8, 8, nullptr);
    REQUIRE(other >= 0);
    CHECK_FALSE(tables.add(other));
    ::close(other);
    CHECK_FALSE(tables.add(-1));
    CHECK(tables.cost_of(1) == 0ns);
}
