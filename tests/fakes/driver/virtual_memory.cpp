#include "driver/virtual_memory.h"

#include <map>
#include <mutex>

#include <sys/mman.h>

namespace standin {
namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20U;  // as on most GPUs

struct Handle {
    Allocation allocation;
    bool imported;
    std::uint64_t references;
    std::uint64_t mappings;
};

struct Mapping {
    std::size_t bytes;
    MemoryHandle handle;
};

struct VirtualMemory {
    std::mutex mutex;
    std::map<MemoryHandle, Handle> handles;
    std::map<DevicePointer, Mapping> mappings;
    std::map<DevicePointer, std::size_t> reservations;
};

VirtualMemory &state() {
    static VirtualMemory &instance = *new VirtualMemory;
    return instance;
}

// With the lock held, as everything here: whether an entry of `map` has all of these bytes.
bool covers(DevicePointer start, std::size_t has, DevicePointer address, std::size_t bytes) {
    return address >= start && address - start <= has && bytes <= has - (address - start);
}

MemoryHandle add(const Handle &handle) {
    // An address, so that a handle's number can come again, as the real ones do.
    const auto number = reinterpret_cast<MemoryHandle>(new char);
    state().handles.emplace(number, handle);
    return number;
}

void end_if_unused(std::map<MemoryHandle, Handle>::iterator at, Ended &ended) {
    const Handle &handle = at->second;
    if (handle.references != 0 || handle.mappings != 0) {
        return;
    }
    if (!handle.imported) {
        return_bytes(handle.allocation.bytes);
        ended.freed.push_back(handle.allocation);
    }
    delete reinterpret_cast<char *>(at->first);
    state().handles.erase(at);
}

// The mapping that has these bytes, or the end. The caller holds the lock.
auto mapping_with(const void *pointer, std::size_t bytes) {
    const auto wanted = reinterpret_cast<DevicePointer>(pointer);
    auto &mappings = state().mappings;
    auto at = mappings.upper_bound(wanted);
    if (at == mappings.begin()) {
        return mappings.end();
    }
    --at;
    return covers(at->first, at->second.bytes, wanted, bytes) ? at : mappings.end();
}

}  // namespace

int create_handle(MemoryHandle *handle, const Allocation &allocation) {
    if (allocation.bytes == 0 || allocation.bytes % kGranularity != 0) {
        return kInvalidValue;
    }
    const std::lock_guard lock(state().mutex);
    if (!reserve_bytes(allocation.bytes)) {
        return kMemoryAllocation;
    }
    *handle = add({allocation, false, 1, 0});
    return kSuccess;
}

int import_handle(MemoryHandle *handle, Device device) {
    const std::lock_guard lock(state().mutex);
    *handle = add({{0, truth::MemoryKind::vmm, device, 0, false, 0}, true, 1, 0});
    return kSuccess;
}

int retain_handle(MemoryHandle *handle, const void *address) {
    const std::lock_guard lock(state().mutex);
    const auto at = mapping_with(address, 1);
    if (at == state().mappings.end()) {
        return kInvalidValue;
    }
    *handle = at->second.handle;
    ++state().handles.at(*handle).references;
    return kSuccess;
}

int release_handle(MemoryHandle handle, std::uint32_t image, Ended &ended) {
    const std::lock_guard lock(state().mutex);
    const auto found = state().handles.find(handle);
    if (found == state().handles.end() || found->second.references == 0) {
        return kInvalidValue;
    }
    const Handle &known = found->second;
    ended.unknown =
        !known.imported && !(known.allocation.counted && known.allocation.image == image);
    --found->second.references;
    end_if_unused(found, ended);
    return kSuccess;
}

int map_handle(DevicePointer address, std::size_t bytes, MemoryHandle handle) {
    if (bytes == 0 || bytes % kGranularity != 0 || address % kGranularity != 0) {
        return kInvalidValue;
    }
    const std::lock_guard lock(state().mutex);
    const auto found = state().handles.find(handle);
    if (found == state().handles.end() || found->second.references == 0 ||
        (!found->second.imported && bytes > found->second.allocation.bytes)) {
        return kInvalidValue;
    }
    auto reserved = state().reservations.upper_bound(address);
    if (reserved == state().reservations.begin()) {
        return kInvalidValue;
    }
    --reserved;
    if (!covers(reserved->first, reserved->second, address, bytes)) {
        return kInvalidValue;
    }
    const auto after = state().mappings.lower_bound(address);
    const bool meets_next = after != state().mappings.end() && after->first - address < bytes;
    const bool meets_previous = after != state().mappings.begin() &&
                                address - std::prev(after)->first < std::prev(after)->second.bytes;
    if (meets_next || meets_previous) {
        return kInvalidValue;
    }
    state().mappings[address] = {bytes, handle};
    ++found->second.mappings;
    return kSuccess;
}

// Several mappings may end at once, with gaps between them, but each as a whole.
int unmap(DevicePointer address, std::size_t bytes, Ended &ended) {
    const std::lock_guard lock(state().mutex);
    auto &mappings = state().mappings;
    const auto first = mappings.lower_bound(address);
    auto last = first;
    while (last != mappings.end() && last->first - address < bytes) {
        if (!covers(address, bytes, last->first, last->second.bytes)) {
            return kInvalidValue;
        }
        ++last;
    }
    const bool begins_inside = first != mappings.begin() &&
                               address - std::prev(first)->first < std::prev(first)->second.bytes;
    if (first == last || begins_inside) {
        return kInvalidValue;
    }
    for (auto at = first; at != last; at = mappings.erase(at)) {
        const auto handle = state().handles.find(at->second.handle);
        --handle->second.mappings;
        end_if_unused(handle, ended);
    }
    return kSuccess;
}

int reserve_addresses(DevicePointer *address, std::size_t bytes) {
    if (bytes == 0 || bytes % kGranularity != 0) {
        return kInvalidValue;
    }
    // Room to begin at a multiple of the granularity.
    void *memory = mmap(nullptr, bytes + kGranularity, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return kMemoryAllocation;
    }
    const auto start = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t aligned = (start + kGranularity - 1) / kGranularity * kGranularity;
    if (aligned != start) {
        munmap(memory, aligned - start);
    }
    if (const std::size_t rest = start + kGranularity - aligned; rest != 0) {
        munmap(reinterpret_cast<void *>(aligned + bytes), rest);
    }
    const std::lock_guard lock(state().mutex);
    state().reservations[aligned] = bytes;
    *address = aligned;
    return kSuccess;
}

int free_addresses(DevicePointer address, std::size_t bytes) {
    const std::lock_guard lock(state().mutex);
    const auto found = state().reservations.find(address);
    if (found == state().reservations.end() || found->second != bytes) {
        return kInvalidValue;
    }
    const auto mapped = state().mappings.lower_bound(address);
    if (mapped != state().mappings.end() && mapped->first - address < bytes) {
        return kInvalidValue;
    }
    state().reservations.erase(found);
    munmap(reinterpret_cast<void *>(address), bytes);
    return kSuccess;
}

bool is_mapped_device_memory(const void *pointer) {
    const std::lock_guard lock(state().mutex);
    const auto at = mapping_with(pointer, 1);
    return at != state().mappings.end() &&
           state().handles.at(at->second.handle).allocation.kind != truth::MemoryKind::pinned_host;
}

bool is_mapped(const void *pointer, std::size_t bytes) {
    const std::lock_guard lock(state().mutex);
    return mapping_with(pointer, bytes) != state().mappings.end();
}

void lock_virtual_memory_for_fork() {
    state().mutex.lock();
}

void unlock_virtual_memory_after_fork() {
    state().mutex.unlock();
}

}  // namespace standin
