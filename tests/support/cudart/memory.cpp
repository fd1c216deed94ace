#include "cudart/memory.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include <sys/mman.h>

namespace standin {
namespace {

constexpr std::size_t kAlignment = 256;  // as the real library's
constexpr std::size_t kMapFrom = std::size_t{1} << 20U;
constexpr std::size_t kDefaultLimit = std::size_t{1} << 30U;

std::mutex g_mutex;
std::map<std::uintptr_t, Allocation> g_book;
std::size_t g_used = 0;

std::size_t limit() {
    static const std::size_t bytes = [] {
        const char *value = std::getenv("STANDIN_MEMORY_LIMIT");
        return value == nullptr ? kDefaultLimit : std::strtoull(value, nullptr, 10);
    }();
    return bytes;
}

// Large memory takes address space only, until someone touches it.
void *obtain(std::size_t bytes) {
    if (bytes < kMapFrom) {
        return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    }
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

void give_back(void *memory, std::size_t bytes) {
    if (bytes < kMapFrom) {
        std::free(memory);
    } else {
        munmap(memory, bytes);
    }
}

}  // namespace

void *allocate(const Allocation &allocation) {
    const std::lock_guard lock(g_mutex);
    if (allocation.bytes > limit() || g_used > limit() - allocation.bytes) {
        return nullptr;
    }
    void *memory = obtain(allocation.bytes);
    if (memory != nullptr) {
        g_book.emplace(reinterpret_cast<std::uintptr_t>(memory), allocation);
        g_used += allocation.bytes;
    }
    return memory;
}

std::optional<Allocation> release(void *pointer, MemoryKinds kinds) {
    const std::lock_guard lock(g_mutex);
    const auto found = g_book.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (found == g_book.end() || (bit(found->second.kind) & kinds) == 0) {
        return std::nullopt;
    }
    const Allocation allocation = found->second;
    g_book.erase(found);
    g_used -= allocation.bytes;
    give_back(pointer, allocation.bytes);
    return allocation;
}

bool is_device_memory(const void *pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const std::lock_guard lock(g_mutex);
    const auto after = g_book.upper_bound(address);
    if (after == g_book.begin()) {
        return false;
    }
    const auto &[start, allocation] = *std::prev(after);
    return address - start < allocation.bytes && allocation.kind != truth::MemoryKind::pinned_host;
}

MemoryUse memory_use() {
    const std::lock_guard lock(g_mutex);
    return {g_used, limit()};
}

void lock_memory_for_fork() {
    g_mutex.lock();
}

void unlock_memory_after_fork() {
    g_mutex.unlock();
}

}  // namespace standin
