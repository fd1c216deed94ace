// The memory part's data of one process. For the files of this folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <set>
#include <utility>

#include "exporter/probes/cuda/memory/live_allocations.h"
#include "exporter/probes/cuda/memory/memory_peaks.h"
#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

// A context, or the primary one of a device.
using ResetKey = std::pair<std::uint64_t, std::int32_t>;
constexpr ResetKey reset_key(std::uint64_t context, std::int32_t device) {
    return {context, context == 0 ? device : 0};
}

struct MemoryState final : PartState {
    static constexpr Part part = Part::memory;

    explicit MemoryState(std::shared_ptr<std::pmr::memory_resource> of_nodes)
        : nodes(std::move(of_nodes)), live(nodes.get()) {}

    std::shared_ptr<std::pmr::memory_resource> nodes;  // destroyed after its users
    LiveAllocations live;
    ProcessMemory held;
    bool has_handles = false;  // of memory: then the kernel's table has more of it
    // It has ended, and its last allocations must still be read from the kernel's table.
    bool awaits_table = false;
    // The kernel left some of its unmapped ranges to the exporter: these allocations may be newer
    // than its table.
    bool has_unfinished_unmaps = false;
    std::map<ResetKey, std::int64_t> resets;  // when it was last reset or destroyed
    // Frees that reconciling assumed, as the table no longer has the allocations: their records may
    // still come.
    std::set<LiveAllocations::Key> assumed_freed;
    // Allocations that were missing from the table for a moment; their records are still to come.
    std::set<LiveAllocations::Key> briefly_missing;
};

}  // namespace gpusnoop::probes
