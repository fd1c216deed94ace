// Memory with a handle, and the virtual addresses that it is mapped to. It is freed when no
// reference to the handle and no mapping of it is left, by whichever call was the last.

#pragma once

#include "driver/memory.h"

#include <optional>

namespace standin {

// All of these return an error code.
int create_handle(MemoryHandle *handle, const Allocation &allocation);
int import_handle(MemoryHandle *handle, Device device);
int retain_handle(MemoryHandle *handle, const void *address);

// What became of memory by a call that ended a reference or mappings.
struct Ended {
    // Of handles that neither a reference nor a mapping is left of.
    std::vector<Allocation> freed;
    // A reference to memory that this image's truth does not have.
    bool unknown = false;
};
int release_handle(MemoryHandle handle, std::uint32_t image, Ended &ended);
int map_handle(DevicePointer address, std::size_t bytes, MemoryHandle handle);
int unmap(DevicePointer address, std::size_t bytes, Ended &ended);

int reserve_addresses(DevicePointer *address, std::size_t bytes);
int free_addresses(DevicePointer address, std::size_t bytes);

bool is_mapped(const void *pointer, std::size_t bytes);
bool is_mapped_device_memory(const void *pointer);

void lock_virtual_memory_for_fork();
void unlock_virtual_memory_after_fork();

}  // namespace standin
