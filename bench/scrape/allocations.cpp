#include "bench/scrape/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> g_count = 0;
std::atomic<std::uint64_t> g_bytes = 0;

void *counted(void *memory, std::size_t size) {
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    g_count.fetch_add(1, std::memory_order_relaxed);
    g_bytes.fetch_add(size, std::memory_order_relaxed);
    return memory;
}

}  // namespace

// The standard library's other forms call these.
void *operator new(std::size_t size) {
    return counted(std::malloc(size == 0 ? 1 : size), size);
}
void *operator new(std::size_t size, std::align_val_t alignment) {
    const auto to = static_cast<std::size_t>(alignment);
    return counted(std::aligned_alloc(to, (size + to - 1) / to * to), size);
}
void operator delete(void *memory) noexcept {
    std::free(memory);
}
void operator delete(void *memory, std::size_t /*size*/) noexcept {
    std::free(memory);
}
void operator delete(void *memory, std::align_val_t /*alignment*/) noexcept {
    std::free(memory);
}
void operator delete(void *memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
    std::free(memory);
}

namespace gpusnoop::bench {

Allocations allocations() {
    return {g_count.load(std::memory_order_relaxed), g_bytes.load(std::memory_order_relaxed)};
}

}  // namespace gpusnoop::bench
