// "Device" memory, which is host memory, and the book of what is allocated.

#pragma once

#include "truth.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace standin {

struct Allocation {
    std::size_t bytes;
    truth::MemoryKind kind;
    // Whether the truth of process image number `image` has it as outstanding.
    bool counted;
    std::uint32_t image;
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
bool is_device_memory(const void *pointer);

struct MemoryUse {
    std::size_t used;
    std::size_t limit;
};
MemoryUse memory_use();

void lock_memory_for_fork();
void unlock_memory_after_fork();

}  // namespace standin
