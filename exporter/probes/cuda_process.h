// What the CUDA probe knows of one process.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>

#include <tsl/robin_map.h>

#include "bpf/cuda.h"
#include "exporter/probes/cuda_book.h"
#include "exporter/series/family.h"
#include "exporter/symbols/kernel_resolver.h"

namespace gpusnoop::probes {

// A process is its id and when it made its first CUDA call: a reused pid, or the next program after
// an exec, is another process.
struct ProcessKey {
    std::uint32_t tgid = 0;
    std::uint64_t since_ns = 0;

    bool operator==(const ProcessKey &) const = default;
};

struct ProcessKeyHash {
    std::size_t operator()(const ProcessKey &key) const {
        return key.since_ns ^ (static_cast<std::uint64_t>(key.tgid) << 40);
    }
};

// One kernel in one shape.
struct LaunchShape {
    std::uint64_t kernel = 0;  // as the launch named it: host function or handle
    std::array<std::uint32_t, 3> grid{};
    std::array<std::uint32_t, 3> block{};

    bool operator==(const LaunchShape &) const = default;
};

struct LaunchShapeHash {
    std::size_t operator()(const LaunchShape &shape) const {
        std::uint64_t hash = shape.kernel;
        for (const auto &dimensions : {shape.grid, shape.block}) {
            for (const std::uint32_t one : dimensions) {
                hash = (hash ^ one) * 0x9e3779b97f4a7c15;
            }
        }
        return hash ^ (hash >> 29);
    }
};

struct LaunchCount {
    std::optional<series::Slot> slot;  // once the kernel has its name
    std::uint64_t waiting = 0;         // launches until then
};

struct Kernel {
    std::uint64_t host_function = 0;  // what its handle stands for, or the address itself
    std::optional<std::string> name;  // none yet; "": not to be found
    std::optional<std::chrono::nanoseconds> asked;  // when
};

// By enum cuda_copy_kind; the last for a Default copy of which the book cannot say what it was.
inline constexpr std::array<std::string_view, 5> copy_kind_names = {"h2h", "h2d", "d2h", "d2d",
                                                                    "unknown"};
inline constexpr std::size_t copy_kind_unknown = 4;

// Places of the families that a process uses, looked up once.
struct CopySlots {
    series::Slot total, bytes, seconds, size;
    std::optional<series::Slot> bandwidth, duration;  // sync only
};

struct Process {
    Process(ProcessKey of, std::pmr::memory_resource *memory) : key(of), book(memory) {}

    ProcessKey key;
    std::chrono::nanoseconds started{};  // since boot, as /proc/PID/stat says; 0: not known
    symbols::Executable executable;
    std::string comm = "unknown";
    std::string container;
    std::string pod_uid;
    std::string exe = "unknown";
    series::Owner owner = 0;    // 0: in no group yet
    series::LabelValues group;  // of the group it joined
    // Known from its first call on: then a pointer that is not in the book is host memory.
    bool book_is_complete = false;
    std::optional<std::chrono::nanoseconds> ended;

    AllocationBook book;
    tsl::robin_map<std::uint64_t, Kernel> kernels;
    tsl::robin_map<LaunchShape, LaunchCount, LaunchShapeHash> launches;
    tsl::robin_map<std::uint64_t, series::Slot> errors;  // function << 32 | code
    std::array<std::array<std::optional<CopySlots>, 2>, copy_kind_names.size()>
        copies;  // [kind][async]
    std::optional<series::Slot> allocations, allocated_bytes, frees, freed_bytes, unknown_frees;
    std::optional<series::Slot> launch_duration, launch_threads;
};

}  // namespace gpusnoop::probes
