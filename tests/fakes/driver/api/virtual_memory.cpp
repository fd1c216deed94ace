// The functions for memory with a handle.

#include "driver/virtual_memory.h"
#include "driver/call.h"
#include "driver/contexts.h"
#include "driver/cuda.h"
#include "driver/truth_writer.h"

namespace standin {
namespace {

using truth::Function;
using truth::MemoryKind;

void count_ended(const Call &open, const Ended &ended) {
    if (!counts(open)) {
        return;
    }
    if (ended.unknown) {
        count_untracked_free(current_device(), MemoryKind::vmm);
    }
    for (const Allocation &allocation : ended.freed) {
        if (allocation.counted && allocation.image == open.image) {
            count_free(allocation.device, allocation.kind, allocation.bytes);
        }
    }
}

int create(const Call &open, MemoryHandle *handle, std::size_t bytes,
           const MemoryProperties *properties) {
    if (handle == nullptr || properties == nullptr || properties->location.type < kOnDevice ||
        properties->location.type > kOnCurrentHostNuma) {
        return kInvalidValue;
    }
    const bool is_host = properties->location.type != kOnDevice;
    const MemoryKind kind = is_host ? MemoryKind::pinned_host : MemoryKind::vmm;
    const Device device = is_host ? current_device() : properties->location.id;
    if (!is_device(device)) {
        return kInvalidDevice;
    }
    run_hook(open);
    const bool counted = counts(open);
    const int error = create_handle(handle, {bytes, kind, device, 0, counted, open.image});
    if (error == kSuccess && counted) {
        count_allocation(device, kind, bytes);
    }
    return error;
}

int end_reference(const Call &open, MemoryHandle handle) {
    run_hook(open);
    Ended ended;
    const int error = release_handle(handle, open.image, ended);
    if (error == kSuccess) {
        count_ended(open, ended);
    }
    return error;
}

int end_mappings(const Call &open, DevicePointer address, std::size_t bytes) {
    run_hook(open);
    Ended ended;
    const int error = unmap(address, bytes, ended);
    if (error == kSuccess) {
        count_ended(open, ended);
    }
    return error;
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE(cuMemAddressReserve,
               (DevicePointer * address, std::size_t bytes, std::size_t /*alignment*/,
                DevicePointer /*wish*/, std::uint64_t /*flags*/),
               initialized_call(self, [&](const Call &) -> int {
                   return address == nullptr ? kInvalidValue : reserve_addresses(address, bytes);
               }))
STANDIN_DEFINE(cuMemAddressFree, (DevicePointer address, std::size_t bytes),
               initialized_call(self, [&](const Call &) { return free_addresses(address, bytes); }))
STANDIN_DEFINE(cuMemCreate,
               (MemoryHandle * handle, std::size_t bytes, const MemoryProperties *properties,
                std::uint64_t /*flags*/),
               initialized_call(self, [&](const Call &open) {
                   return create(open, handle, bytes, properties);
               }))
STANDIN_DEFINE(cuMemRelease, (MemoryHandle handle), initialized_call(self, [&](const Call &open) {
                   return end_reference(open, handle);
               }))
STANDIN_DEFINE(cuMemMap,
               (DevicePointer address, std::size_t bytes, std::size_t offset, MemoryHandle handle,
                std::uint64_t /*flags*/),
               initialized_call(self, [&](const Call &) -> int {
                   return offset != 0 ? kInvalidValue : map_handle(address, bytes, handle);
               }))
STANDIN_DEFINE(cuMemUnmap, (DevicePointer address, std::size_t bytes),
               initialized_call(self, [&](const Call &open) {
                   return end_mappings(open, address, bytes);
               }))
STANDIN_DEFINE(cuMemSetAccess,
               (DevicePointer address, std::size_t bytes, const MemoryAccess *access,
                std::size_t count),
               initialized_call(self, [&](const Call &) -> int {
                   const bool valid = access != nullptr && count != 0 &&
                                      is_mapped(reinterpret_cast<void *>(address), bytes);
                   return valid ? kSuccess : kInvalidValue;
               }))
STANDIN_DEFINE(cuMemRetainAllocationHandle, (MemoryHandle * handle, void *address),
               initialized_call(self, [&](const Call &) -> int {
                   return handle == nullptr ? kInvalidValue : retain_handle(handle, address);
               }))
STANDIN_DEFINE(cuMemImportFromShareableHandle, (MemoryHandle * handle, void *shared, int /*type*/),
               initialized_call(self, [&](const Call &) -> int {
                   return handle == nullptr || shared == nullptr
                              ? kInvalidValue
                              : import_handle(handle, current_device());
               }))
// No memory of this process, either.
STANDIN_DEFINE(cuMulticastCreate, (MemoryHandle * handle, const void *properties),
               initialized_call(self, [&](const Call &) -> int {
                   return handle == nullptr || properties == nullptr
                              ? kInvalidValue
                              : import_handle(handle, current_device());
               }))

}  // extern "C"
