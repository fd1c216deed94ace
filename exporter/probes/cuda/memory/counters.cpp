#include "exporter/probes/cuda/memory/counters.h"

#include <map>
#include <optional>
#include <string>

#include <tsl/robin_map.h>

namespace gpusnoop::probes {

namespace {

// The slots that a process uses, looked up once.
struct MemorySlots {
    std::optional<series::Slot> allocations, allocated_bytes, frees, freed_bytes, untracked_frees;
};

series::LabelValues labels_by_kind(const Process &process, std::int32_t device,
                                   cuda_memory_kind kind) {
    return labels_of(process, {gpu_of(process, device), memory_kind_names.at(shown_kind(kind))});
}

}  // namespace

struct MemoryCounters::State final : PartState {
    static constexpr Part part = Part::memory_counters;

    tsl::robin_map<std::uint64_t, MemorySlots> slots;  // device, kind
};

void MemoryCounters::started(Process &process) {
    add_state<State>(process);
}

void MemoryCounters::allocated(Process &process, std::int32_t device, cuda_memory_kind kind,
                               std::uint64_t bytes) {
    MemorySlots &slots = state_of<State>(process).slots[slot_key(device, kind)];
    if (!slots.allocations) {
        const auto values = labels_by_kind(process, device, kind);
        slots.allocations = families_.allocations.slot(process.owner, values);
        slots.allocated_bytes = families_.allocated_bytes.slot(process.owner, values);
    }
    families_.allocations.add(*slots.allocations, 1);
    families_.allocated_bytes.add(*slots.allocated_bytes, bytes);
}

void MemoryCounters::freed(Process &process, std::int32_t device, cuda_memory_kind kind,
                           std::uint64_t bytes) {
    MemorySlots &slots = state_of<State>(process).slots[slot_key(device, kind)];
    if (!slots.frees) {
        const auto values = labels_by_kind(process, device, kind);
        slots.frees = families_.frees.slot(process.owner, values);
        slots.freed_bytes = families_.freed_bytes.slot(process.owner, values);
    }
    families_.frees.add(*slots.frees, 1);
    families_.freed_bytes.add(*slots.freed_bytes, bytes);
}

void MemoryCounters::freed_unknown(Process &process, std::int32_t device, cuda_memory_kind kind) {
    MemorySlots &slots = state_of<State>(process).slots[slot_key(device, kind)];
    if (!slots.untracked_frees) {
        slots.untracked_frees =
            families_.untracked_frees.slot(process.owner, labels_by_kind(process, device, kind));
    }
    families_.untracked_frees.add(*slots.untracked_frees, 1);
}

void MemoryCounters::left_unfreed(const Process &process, const LiveAllocations::Parts &parts) {
    std::map<std::string, Amount> unfreed;
    // Also when it is 0: a counter that appears with its first leak has no increase to alert on.
    unfreed[gpu_of(process, device_of(process, CUDA_DEVICE_UNCHOSEN))];
    for (const auto &[part, amount] : parts) {
        Amount &sum = unfreed[gpu_of(process, part.first)];
        sum.bytes += amount.bytes;
        sum.count += amount.count;
    }
    for (const auto &[gpu, amount] : unfreed) {
        const auto values = labels_of(process, {gpu});
        families_.unfreed_bytes.add(families_.unfreed_bytes.slot(process.owner, values),
                                    amount.bytes);
        families_.unfreed_allocations.add(families_.unfreed_allocations.slot(process.owner, values),
                                          amount.count);
    }
}

}  // namespace gpusnoop::probes
