// What the CUDA probe knows of one process.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <tsl/robin_map.h>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/copies/async_copies.h"
#include "exporter/probes/cuda/launches/cuda_kernel_resolver.h"
#include "exporter/probes/cuda/memory/live_allocations.h"
#include "exporter/probes/frame/process_table.h"
#include "exporter/series/family.h"
#include "exporter/symbols/stacks/stack_resolver.h"

namespace gpusnoop::probes {

// One kernel in one shape on one device.
struct LaunchShape {
    std::uint64_t kernel = 0;  // as the launch named it: host function or handle
    std::int32_t device = 0;
    std::array<std::uint32_t, 3> grid{};
    std::array<std::uint32_t, 3> block{};

    // Hashed and compared once for each launch, so in whole words.
    using Words = std::array<std::uint64_t, 5>;
    [[nodiscard]] Words words() const {
        const auto both = [](std::uint32_t low, std::uint32_t high) {
            return low | static_cast<std::uint64_t>(high) << 32;
        };
        return {kernel, static_cast<std::uint32_t>(device), both(grid[0], block[0]),
                both(grid[1], block[1]), both(grid[2], block[2])};
    }
    bool operator==(const LaunchShape &other) const {
        const Words own = words();
        const Words others = other.words();
        std::uint64_t difference = 0;
        for (std::size_t i = 0; i < own.size(); i++) {
            difference |= own[i] ^ others[i];
        }
        return difference == 0;
    }
};

struct LaunchShapeHash {
    std::size_t operator()(const LaunchShape &shape) const {
        // Each word times an odd number of its own, none waiting for another.
        const LaunchShape::Words words = shape.words();
        const std::uint64_t hash = words[0] * 0x9e3779b97f4a7c15 + words[1] * 0xbf58476d1ce4e5b9 +
                                   words[2] * 0x94d049bb133111eb + words[3] * 0xd6e8feb86659fd93 +
                                   words[4] * 0xa0761d6478bd642f;
        return hash ^ (hash >> 32);
    }
};

// A process can use as many numbers of devices as it likes; what is past it is an unknown device.
inline constexpr std::int32_t max_devices = CUDA_KNOWN_DEVICES;

// Per process; what is more is counted as "other", like what is past the family's budget.
inline constexpr std::size_t max_kernels = 16'384;
inline constexpr std::size_t max_launch_shapes = 65'536;
inline constexpr std::uint64_t surplus_kernel = 0;  // stands for all of them; no kernel is there

struct LaunchCount {
    std::optional<series::Slot> slot;  // once the kernel has its name
    std::uint64_t waiting = 0;         // launches until then
    std::uint64_t renames = 0;         // of the process, when the name was looked at
};

struct Kernel {
    std::uint64_t stands_for = 0;     // another handle or a host function; the address itself
    std::optional<std::string> name;  // none yet; "": not to be found
    std::optional<std::chrono::nanoseconds> asked;  // when
    std::uint64_t renamed = 0;                      // which of the process's renames was its last
    // What its handle stood for before, and until when: the latest of them.
    std::vector<std::pair<std::uint64_t, std::string>> former_names;
};

// By enum cuda_copy_kind; the last for a Default copy of which the book cannot say what it was.
inline constexpr std::array<std::string_view, 5> copy_kind_names = {"h2h", "h2d", "d2h", "d2d",
                                                                    "unknown"};
inline constexpr std::size_t copy_kind_unknown = 4;

inline constexpr std::array<std::string_view, MEMORY_KIND_COUNT> memory_kind_names = {
    "device", "async", "managed", "pinned_host", "vmm"};

// Places of the families that a process uses, looked up once.
struct CopySlots {
    series::Slot total, bytes, seconds, size;
    std::optional<series::Slot> bandwidth, duration;  // sync only
};

struct MemorySlots {
    std::optional<series::Slot> allocations, allocated_bytes, frees, freed_bytes, unknown_frees;
};

struct SetSlots {
    series::Slot total, bytes;
};

// A number of a device and what else tells the slots of one family apart.
constexpr std::uint64_t slot_key(std::int32_t device, std::size_t one, std::size_t two = 0) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(device)) << 32) | (one << 8) |
           two;
}

// How a process has its CUDA runtime. Of several ways, the first.
enum class Linkage : std::uint8_t { shared, statically, driver_only, unknown };

// What is known of a call site that holds memory.
struct SiteName {
    std::string label;                   // empty until it is known
    std::vector<symbols::Frame> frames;  // innermost first
};

// A context, or the primary one of a device.
using ResetKey = std::pair<std::uint64_t, std::int32_t>;
constexpr ResetKey reset_key(std::uint64_t context, std::int32_t device) {
    return {context, context == 0 ? device : 0};
}

struct Process : KnownProcess {
    explicit Process(std::pmr::memory_resource *memory) : book(memory) {}

    symbols::Executable executable;
    // Known from its first call on: then a pointer that is not in the book is host memory.
    bool book_is_complete = false;
    Linkage linkage = Linkage::unknown;
    // The label `gpu` of a device of the process, by its ordinal; of one that is not known.
    std::function<std::string(std::optional<std::uint32_t>)> gpu_name = [](auto) {
        return "unknown";
    };
    bool has_named_kernels = false;  // lately
    bool has_handles = false;        // of memory: then the table of live allocations has more of it
    // It has ended, and what it had allocated then is still to be read from the kernel's table.
    bool awaits_table = false;
    // Of its unmapped ranges some were left to us: its book may lag behind the kernel's table.
    bool has_rests = false;

    AllocationBook book;
    std::map<ResetKey, std::int64_t> resets;  // when it was last reset or destroyed
    // Taken for freed by reconcile(): the records of these frees may still come.
    std::set<AllocationBook::Key> presumed_freed;
    // The kernel's table did not have them for a moment; records of their making are still to come.
    std::set<AllocationBook::Key> displaced;
    tsl::robin_map<std::uint64_t, Kernel> kernels;
    std::uint64_t renames = 0;  // of kernels
    tsl::robin_map<LaunchShape, LaunchCount, LaunchShapeHash> launches;
    tsl::robin_map<std::uint64_t, series::Slot> errors;       // function << 32 | code
    tsl::robin_map<std::uint64_t, MemorySlots> memory_slots;  // device, kind
    tsl::robin_map<std::uint64_t, CopySlots> copies;          // device, kind, async
    tsl::robin_map<std::uint64_t, SetSlots> sets;             // device, async
    tsl::robin_map<std::uint64_t, series::Slot> graphs;       // device
    tsl::robin_map<std::uint64_t, std::array<series::Slot, 2>> launch_times;  // device
    AsyncCopies async_copies;
    std::map<Site, SiteName> site_names;
    std::unordered_set<std::int32_t> stacks;  // in the kernel's table, that it allocated from
};

}  // namespace gpusnoop::probes
