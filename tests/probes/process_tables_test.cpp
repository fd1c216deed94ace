// The kernel's memory for processes that are not there.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "bpf/lib/processes/process.h"
#include "exporter/base/fd.h"
#include "exporter/probes/frame/bpf/overhead_limits.h"
#include "tests/harness/exporter.h"

using namespace harness;
using namespace gpusnoop;
using namespace std::chrono_literals;

namespace {

// The maps that a process has open, by their ids.
std::map<std::uint32_t, bpf_map_info> maps_of(pid_t pid) {
    std::map<std::uint32_t, bpf_map_info> maps;
    for (const auto &file :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fdinfo")) {
        std::istringstream lines(read_file(file.path()));
        for (std::string line; std::getline(lines, line);) {
            if (!line.starts_with("map_id:")) {
                continue;
            }
            const auto id = static_cast<std::uint32_t>(std::stoul(line.substr(7)));
            const gpusnoop::Fd map(bpf_map_get_fd_by_id(id));
            REQUIRE(map);
            std::uint32_t size = sizeof(bpf_map_info);
            REQUIRE(bpf_map_get_info_by_fd(map.get(), &maps[id], &size) == 0);
        }
    }
    return maps;
}

}  // namespace

TEST_CASE("tables of processes have memory only for the processes that there are", "[kernel]") {
    require_bpf();
    Exporter exporter(
        "functions: {enabled: true}\nsyscall: {enabled: true, syscalls: [getppid]}\n"
        "host: {tasks: {enabled: true}}\ntargets: {comms: [\"nobody\"]}\n");
    std::set<std::string_view> tables;
    const auto maps = maps_of(exporter.process().pid());
    for (const auto &[id, map] : maps) {
        const std::string_view name(map.name);
        // A probe without the probe `cuda` has one with room for one process.
        if (!name.ends_with("_procs") || map.max_entries == 1) {
            continue;
        }
        CAPTURE(name);
        tables.insert(name);
        CHECK((map.map_flags & BPF_F_NO_PREALLOC) != 0);
    }
    for (const auto *name :
         {"cuda_procs", "follow_procs", "func_procs", "syscall_procs", "target_procs"}) {
        CAPTURE(name);
        CHECK(tables.contains(name));
    }
}

// What several probes cost a process, from their tables in the kernel.

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
