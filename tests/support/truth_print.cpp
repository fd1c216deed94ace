// truth_print DIRECTORY: every truth file in it, for a person.

#include "truth_reader.h"

#include <cstdio>
#include <exception>

namespace {

constexpr const char *kMemoryNames[] = {"device", "async", "managed", "pinned_host"};
constexpr const char *kCopyNames[] = {"h2h", "h2d", "d2h", "d2d"};
constexpr const char *kModeNames[] = {"sync", "async"};

unsigned long long wide(std::uint64_t value) {
    return value;
}

void print(const truth::TruthSnapshot &one) {
    std::printf("pid %d generation %u comm %s\n", one.pid, one.generation, one.comm.c_str());
    for (std::size_t kind = 0; kind < truth::kMemoryKinds; ++kind) {
        const truth::Memory &memory = one.memory[kind];
        if (memory.allocations + memory.unknown_frees == 0) {
            continue;
        }
        std::printf(
            "  memory %s: %llu allocations of %llu bytes, %llu frees of %llu bytes, "
            "%llu unknown frees, outstanding %llu of %llu bytes\n",
            kMemoryNames[kind], wide(memory.allocations), wide(memory.allocated_bytes),
            wide(memory.frees), wide(memory.freed_bytes), wide(memory.unknown_frees),
            wide(memory.outstanding_allocations), wide(memory.outstanding_bytes));
    }
    for (std::size_t kind = 0; kind < truth::kCopyKinds; ++kind) {
        for (std::size_t mode = 0; mode < truth::kCopyModes; ++mode) {
            const truth::Copies &copies = one.copies[kind][mode];
            if (copies.calls != 0) {
                std::printf("  copies %s %s: %llu of %llu bytes\n", kCopyNames[kind],
                            kModeNames[mode], wide(copies.calls), wide(copies.bytes));
            }
        }
    }
    std::printf(
        "  launches %llu (%llu unlisted), empty allocations %llu, empty frees %llu, "
        "nested %llu of %llu, returns without entry %llu\n",
        wide(one.launches), wide(one.launches_unlisted), wide(one.empty_allocations),
        wide(one.empty_frees), wide(one.nested_calls), wide(one.nested_entered),
        wide(one.returns_without_entry));
    for (const auto &[key, count] : one.launch_table) {
        std::printf("  launch %s <<<%u,%u,%u; %u,%u,%u>>>: %llu\n", key.kernel.c_str(), key.grid[0],
                    key.grid[1], key.grid[2], key.block[0], key.block[1], key.block[2],
                    wide(count));
    }
    for (const auto &[function, count] : one.entered) {
        std::printf("  %s: entered %llu, never returned %llu\n", function.c_str(), wide(count),
                    wide(one.never_returned(function)));
    }
    for (const auto &[key, count] : one.results) {
        if (key.second != 0) {
            std::printf("  %s gave error %d: %llu\n", key.first.c_str(), key.second, wide(count));
        }
    }
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fputs("usage: truth_print DIRECTORY\n", stderr);
        return 2;
    }
    try {
        for (const truth::TruthSnapshot &one : truth::read_truth(argv[1])) {
            print(one);
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "truth_print: %s\n", error.what());
        return 1;
    }
    return 0;
}
