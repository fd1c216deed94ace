// The kernel's memory for processes that are not there.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "exporter/base/fd.h"
#include "tests/harness/exporter.h"

using namespace harness;

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
