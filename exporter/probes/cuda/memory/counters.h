// Counts allocations and frees, by process, device and kind of memory.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/memory/live_allocations.h"
#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

inline constexpr std::array<std::string_view, MEMORY_KIND_COUNT> memory_kind_names = {
    "device", "async", "managed", "pinned_host", "vmm"};

class MemoryCounters {
public:
    explicit MemoryCounters(series::FamilySet &families)
        : families_(make_memory_families(families)) {}

    static void started(Process &process);

    void allocated(Process &process, std::int32_t device, cuda_memory_kind kind,
                   std::uint64_t bytes);
    void allocated(Process &process, const Allocation &allocation) {
        allocated(process, allocation.device, allocation.kind, allocation.bytes);
    }
    void freed(Process &process, std::int32_t device, cuda_memory_kind kind, std::uint64_t bytes);
    void freed(Process &process, const Allocation &allocation) {
        freed(process, allocation.device, allocation.kind, allocation.bytes);
    }
    // Counts a free of memory whose allocation was not seen.
    void freed_unknown(Process &process, std::int32_t device, cuda_memory_kind kind);
    // Counts the memory that the process had not freed at its end.
    void left_unfreed(const Process &process, const LiveAllocations::Parts &parts);

private:
    struct State;

    MemoryFamilies families_;
};

}  // namespace gpusnoop::probes
