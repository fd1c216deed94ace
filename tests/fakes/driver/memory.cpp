#include "driver/memory.h"

#include "driver/call.h"
#include "driver/contexts.h"
#include "driver/truth_writer.h"
#include "driver/virtual_memory.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include <sys/mman.h>

namespace standin {
namespace {

using truth::MemoryKind;

constexpr std::size_t kAlignment = 256;  // as the real library's
constexpr std::size_t kMapFrom = std::size_t{1} << 20U;
constexpr std::size_t kDefaultLimit = std::size_t{1} << 30U;

// Never destroyed: programs free while they exit.
struct Heap {
    std::mutex mutex;
    std::map<std::uintptr_t, Allocation> allocations;
    std::map<std::uintptr_t, Allocation> registered;
    std::size_t used = 0;
};

Heap &heap() {
    static Heap &instance = *new Heap;
    return instance;
}

std::size_t bytes_in(const char *variable, std::size_t otherwise) {
    const char *value = std::getenv(variable);
    return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

std::size_t limit() {
    static const std::size_t bytes = bytes_in("STANDIN_MEMORY_LIMIT", kDefaultLimit);
    return bytes;
}

// With the lock held.
bool fits(std::size_t bytes) {
    return bytes <= limit() && heap().used <= limit() - bytes;
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

std::optional<Allocation> covering(const void *pointer, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const std::lock_guard lock(heap().mutex);
    const auto after = heap().allocations.upper_bound(address);
    if (after == heap().allocations.begin()) {
        return std::nullopt;
    }
    const auto &[start, allocation] = *std::prev(after);
    const std::uintptr_t offset = address - start;
    if (offset >= allocation.bytes || bytes > allocation.bytes - offset) {
        return std::nullopt;
    }
    return allocation;
}

}  // namespace

void *allocate(const Allocation &allocation) {
    const std::lock_guard lock(heap().mutex);
    if (!fits(allocation.bytes)) {
        return nullptr;
    }
    void *memory = obtain(allocation.bytes);
    if (memory != nullptr) {
        heap().allocations.emplace(reinterpret_cast<std::uintptr_t>(memory), allocation);
        heap().used += allocation.bytes;
    }
    return memory;
}

std::optional<Allocation> release(void *pointer, MemoryKinds kinds) {
    const std::lock_guard lock(heap().mutex);
    auto &allocations = heap().allocations;
    const auto found = allocations.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (found == allocations.end() || (bit(found->second.kind) & kinds) == 0) {
        return std::nullopt;
    }
    const Allocation allocation = found->second;
    allocations.erase(found);
    heap().used -= allocation.bytes;
    give_back(pointer, allocation.bytes);
    return allocation;
}

bool register_memory(void *pointer, const Allocation &registration) {
    const auto start = reinterpret_cast<std::uintptr_t>(pointer);
    const std::lock_guard lock(heap().mutex);
    auto &registered = heap().registered;
    const auto after = registered.lower_bound(start);
    if (after != registered.end() && after->first - start < registration.bytes) {
        return false;
    }
    if (after != registered.begin() &&
        start - std::prev(after)->first < std::prev(after)->second.bytes) {
        return false;
    }
    registered.emplace(start, registration);
    return true;
}

std::optional<Allocation> unregister_memory(void *pointer) {
    const std::lock_guard lock(heap().mutex);
    const auto found = heap().registered.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (found == heap().registered.end()) {
        return std::nullopt;
    }
    const Allocation registration = found->second;
    heap().registered.erase(found);
    return registration;
}

void release_graph_memory(void *pointer, std::uint64_t graph) {
    const std::lock_guard lock(heap().mutex);
    auto &allocations = heap().allocations;
    const auto found = allocations.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (found != allocations.end() && found->second.graph == graph) {
        heap().used -= found->second.bytes;
        give_back(pointer, found->second.bytes);
        allocations.erase(found);
    }
}

std::vector<Allocation> release_context(std::uint64_t context) {
    std::vector<Allocation> released;
    const std::lock_guard lock(heap().mutex);
    std::erase_if(heap().allocations, [&](const auto &entry) {
        const Allocation &allocation = entry.second;
        if (context == 0 || allocation.context != context) {
            return false;
        }
        released.push_back(allocation);
        heap().used -= allocation.bytes;
        give_back(reinterpret_cast<void *>(entry.first), allocation.bytes);
        return true;
    });
    std::erase_if(heap().registered, [&](const auto &entry) {
        const bool is_gone = context != 0 && entry.second.context == context;
        if (is_gone) {
            released.push_back(entry.second);
        }
        return is_gone;
    });
    return released;
}

bool reserve_bytes(std::size_t bytes) {
    const std::lock_guard lock(heap().mutex);
    if (!fits(bytes)) {
        return false;
    }
    heap().used += bytes;
    return true;
}

void return_bytes(std::size_t bytes) {
    const std::lock_guard lock(heap().mutex);
    heap().used -= bytes;
}

bool is_device_memory(const void *pointer) {
    const auto allocation = covering(pointer, 1);
    return allocation ? allocation->kind != MemoryKind::pinned_host
                      : is_mapped_device_memory(pointer);
}

bool is_allocated(const void *pointer, std::size_t bytes) {
    return covering(pointer, bytes).has_value() || is_mapped(pointer, bytes);
}

MemoryUse memory_use() {
    static const std::size_t total = bytes_in("STANDIN_MEMORY_TOTAL", limit());
    const std::lock_guard lock(heap().mutex);
    return {bytes_in("STANDIN_MEMORY_FREE", limit() - heap().used), total};
}

void count_release(const Call &call, const Allocation &allocation, MemoryKind kind) {
    if (!counts(call)) {
        return;
    }
    if (allocation.counted && allocation.image == call.image) {
        count_free(allocation.device, allocation.kind, allocation.bytes);
    } else {
        count_untracked_free(current_device(), kind);
    }
}

void count_reset(const Call &call, const std::vector<Allocation> &allocations) {
    if (!counts(call)) {
        return;
    }
    for (const Allocation &allocation : allocations) {
        if (allocation.counted && allocation.image == call.image) {
            count_freed_by_reset(allocation.device, allocation.kind, allocation.bytes);
        }
    }
}

void lock_memory_for_fork() {
    heap().mutex.lock();
}

void unlock_memory_after_fork() {
    heap().mutex.unlock();
}

}  // namespace standin
