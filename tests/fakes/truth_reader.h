// Reads the truth files that the stand-in CUDA libraries left in a directory.

#pragma once

#include "truth.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace truth {

struct LaunchKey {
    std::string kernel;  // mangled
    std::array<std::uint32_t, 3> grid{};
    std::array<std::uint32_t, 3> block{};
    std::uint32_t device = 0;

    auto operator<=>(const LaunchKey &) const = default;
};

// One process image, or the sum of several. The members mean what they mean in FileLayout.
struct TruthSnapshot {
    std::int32_t pid = 0;
    std::uint32_t generation = 0;
    std::uint64_t created_ns = 0;
    std::string comm;

    // By device. The functions below sum over all of them where none is named.
    std::array<std::array<Memory, kMemoryKinds>, kDevices> memory{};
    std::array<Held, kDevices> held{};  // in a sum, the peaks are the highest
    std::array<std::array<std::array<Copies, kCopyModes>, kCopyKinds>, kDevices> copies{};
    std::array<std::array<Copies, kCopyModes>, kDevices> memsets{};
    std::array<std::uint64_t, kDevices> graph_launches{};
    std::array<std::array<std::uint64_t, kCaptured>, kDevices> captured{};
    std::array<std::uint64_t, kDevices> synchronizations{};
    std::uint64_t launches = 0;
    std::uint64_t launches_by_graphs = 0;
    std::uint64_t launches_unlisted = 0;
    std::uint64_t empty_frees = 0;
    std::uint64_t elapsed_times = 0;
    std::uint64_t elapsed_ns = 0;
    std::uint64_t elapsed_invalid = 0;
    std::uint64_t nested_entered = 0;
    std::uint64_t nested_calls = 0;
    std::uint64_t returns_without_entry = 0;
    std::map<std::string, std::uint64_t> entered;                  // by function; no zeros
    std::map<std::pair<std::string, int>, std::uint64_t> results;  // by function, code; no zeros
    std::map<LaunchKey, std::uint64_t> launch_table;               // into streams
    std::map<LaunchKey, std::uint64_t> graph_launch_table;         // inside graphs

    // By calls, and inside graphs.
    std::uint64_t all_launches() const { return launches + launches_by_graphs; }
    Memory of(MemoryKind kind) const;
    const Memory &of(std::size_t device, MemoryKind kind) const {
        return memory[device][static_cast<std::size_t>(kind)];
    }
    Memory all_memory() const;  // of all kinds
    Copies of(CopyKind kind, CopyMode mode) const;
    const Copies &of(std::size_t device, CopyKind kind, CopyMode mode) const {
        return copies[device][static_cast<std::size_t>(kind)][static_cast<std::size_t>(mode)];
    }
    Copies sets(CopyMode mode) const;
    std::uint64_t graphs() const;
    std::uint64_t of(Captured what) const;
    std::uint64_t waits() const;
    std::uint64_t calls(std::string_view function) const;  // that returned, whatever they returned
    std::uint64_t result(std::string_view function, int code) const;
    std::uint64_t never_returned(std::string_view function) const;
};

// Every truth file in `directory`, by pid and generation. Throws std::runtime_error for a file that
// is not one; one that its process has only begun to write is left out.
std::vector<TruthSnapshot> read_truth(const std::filesystem::path &directory);

// All of them together; pid, generation, created_ns and comm are the first one's.
TruthSnapshot sum(const std::vector<TruthSnapshot> &snapshots);

}  // namespace truth
