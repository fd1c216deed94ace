// "Device" memory, which is host memory, and the book of what is allocated.

#pragma once

#include "driver/core.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace standin {

struct Allocation {
    std::size_t bytes;
    truth::MemoryKind kind;
    Device device;
    std::uint64_t context;  // its id; 0 for memory that belongs to none
    // Whether the truth of process image number `image` has it as outstanding.
    bool counted;
    std::uint32_t image;
    std::uint64_t graph = 0;  // a number of a graph's memory, never used again; 0 for other memory
};

// A bit per truth::MemoryKind: which of them a free function takes.
using MemoryKinds = std::uint32_t;
constexpr MemoryKinds bit(truth::MemoryKind kind) {
    return 1U << static_cast<std::uint32_t>(kind);
}

// nullptr when it would pass the process's limit.
void *allocate(const Allocation &allocation);
// What it was; nothing when `pointer` is not the start of a live allocation of one of `kinds`.
std::optional<Allocation> release(void *pointer, MemoryKinds kinds);
// The program's own memory, which is pinned for a while. False: some of it is already.
bool register_memory(void *pointer, const Allocation &registration);
std::optional<Allocation> unregister_memory(void *pointer);
// A graph's memory, unless it was freed before.
void release_graph_memory(void *pointer, std::uint64_t graph);
// Everything that was allocated or registered in a context.
std::vector<Allocation> release_context(std::uint64_t context);

// Memory without an address of its own (cuMemCreate), which counts for the limit too.
bool reserve_bytes(std::size_t bytes);
void return_bytes(std::size_t bytes);

// Of any kind but pinned_host, or virtual addresses with memory behind them.
bool is_device_memory(const void *pointer);
// Whether all these bytes lie in one allocation or mapping.
bool is_allocated(const void *pointer, std::size_t bytes);

// As a program is told: of the device, which it may share with others.
struct MemoryUse {
    std::size_t free;
    std::size_t total;
};
MemoryUse memory_use();

// The truth of a free, by a function for memory of `kind`; that of a reset.
void count_release(const Call &call, const Allocation &allocation, truth::MemoryKind kind);
void count_reset(const Call &call, const std::vector<Allocation> &allocations);

void lock_memory_for_fork();
void unlock_memory_after_fork();

}  // namespace standin
