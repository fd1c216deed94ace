// truth_print DIRECTORY: every truth file in it, for a person.

#include "truth_reader.h"

#include <cstdio>
#include <exception>

namespace {

constexpr const char *kMemoryNames[] = {"device", "async", "managed", "pinned_host", "vmm"};
constexpr const char *kCopyNames[] = {"h2h", "h2d", "d2h", "d2d"};
constexpr const char *kModeNames[] = {"sync", "async", "graph"};
constexpr const char *kCapturedNames[] = {"launch", "copy", "memset", "allocate", "free", "graph"};

unsigned long long wide(std::uint64_t value) {
    return value;
}

void print_memory(std::size_t device, const char *kind, const truth::Memory &memory) {
    if (memory.allocations + memory.empty_allocations + memory.untracked_frees == 0) {
        return;
    }
    std::printf(
        "  device %zu memory %s: %llu allocations of %llu bytes (and %llu empty), %llu frees of "
        "%llu "
        "bytes, %llu untracked frees, %llu of %llu bytes freed by a reset, outstanding %llu of "
        "%llu "
        "bytes\n",
        device, kind, wide(memory.allocations), wide(memory.allocated_bytes),
        wide(memory.empty_allocations), wide(memory.frees), wide(memory.freed_bytes),
        wide(memory.untracked_frees), wide(memory.freed_by_reset),
        wide(memory.freed_by_reset_bytes), wide(memory.outstanding_allocations),
        wide(memory.outstanding_bytes));
}

void print_calls(std::size_t device, const char *what, const char *mode,
                 const truth::Copies &calls) {
    if (calls.calls != 0) {
        std::printf("  device %zu %s %s: %llu of %llu bytes\n", device, what, mode,
                    wide(calls.calls), wide(calls.bytes));
    }
}

void print_device(const truth::TruthSnapshot &one, std::size_t device) {
    for (std::size_t kind = 0; kind < truth::kMemoryKinds; ++kind) {
        print_memory(device, kMemoryNames[kind], one.memory[device][kind]);
    }
    for (std::size_t mode = 0; mode < truth::kCopyModes; ++mode) {
        for (std::size_t kind = 0; kind < truth::kCopyKinds; ++kind) {
            print_calls(device, kCopyNames[kind], kModeNames[mode], one.copies[device][kind][mode]);
        }
        print_calls(device, "memset", kModeNames[mode], one.memsets[device][mode]);
    }
    for (std::size_t what = 0; what < truth::kCaptured; ++what) {
        if (one.captured[device][what] != 0) {
            std::printf("  device %zu captured %s: %llu\n", device, kCapturedNames[what],
                        wide(one.captured[device][what]));
        }
    }
    if (one.graph_launches[device] + one.synchronizations[device] != 0) {
        std::printf("  device %zu: %llu graph launches, %llu synchronizations\n", device,
                    wide(one.graph_launches[device]), wide(one.synchronizations[device]));
    }
}

void print_launches(const char *what, const std::map<truth::LaunchKey, std::uint64_t> &table) {
    for (const auto &[key, count] : table) {
        std::printf("  device %u %s %s <<<%u,%u,%u; %u,%u,%u>>>: %llu\n", key.device, what,
                    key.kernel.c_str(), key.grid[0], key.grid[1], key.grid[2], key.block[0],
                    key.block[1], key.block[2], wide(count));
    }
}

void print(const truth::TruthSnapshot &one) {
    std::printf("pid %d generation %u comm %s\n", one.pid, one.generation, one.comm.c_str());
    for (std::size_t device = 0; device < truth::kDevices; ++device) {
        print_device(one, device);
    }
    std::printf(
        "  launches %llu, by graphs %llu (%llu unlisted), empty frees %llu, nested %llu of %llu, "
        "returns without "
        "entry %llu\n",
        wide(one.launches), wide(one.launches_by_graphs), wide(one.launches_unlisted),
        wide(one.empty_frees), wide(one.nested_calls), wide(one.nested_entered),
        wide(one.returns_without_entry));
    print_launches("launch", one.launch_table);
    print_launches("launch by a graph", one.graph_launch_table);
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
