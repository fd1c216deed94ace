// The functions that allocate and free memory with an address.

#include "driver/memory.h"
#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/cuda.h"
#include "driver/objects.h"
#include "driver/truth_writer.h"

namespace standin {
namespace {

using truth::Function;
using truth::MemoryKind;

constexpr std::size_t kPitch = 512;

// An address has two types in this interface: DevicePointer and void *.
template <typename Address>
int allocate_here(const Call &open, MemoryKind kind, Address *out, std::size_t bytes,
                  const Current &current, Device device) {
    if (out == nullptr || bytes == 0) {
        return kInvalidValue;
    }
    run_hook(open);
    if (const int error = kind == MemoryKind::async ? kSuccess : forbidden_as_unsafe();
        error != kSuccess) {
        return error;
    }
    const bool counted = counts(open);
    void *memory = allocate({bytes, kind, device, current.id, counted, open.image});
    if (memory == nullptr) {
        return kMemoryAllocation;
    }
    *out = (Address)memory;
    if (counted) {
        count_allocation(device, kind, bytes);
    }
    return kSuccess;
}

template <typename Address>
int allocation_call(Function self, MemoryKind kind, Address *out, std::size_t bytes) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        return current.error != kSuccess
                   ? current.error
                   : allocate_here(open, kind, out, bytes, current, current.device);
    });
}

int pitched_call(Function self, DevicePointer *out, std::size_t *pitch, std::size_t width,
                 std::size_t height, unsigned element_bytes) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        if (pitch == nullptr || width == 0 || height == 0 ||
            (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)) {
            return kInvalidValue;
        }
        std::size_t padded = 0;
        std::size_t bytes = 0;
        if (__builtin_add_overflow(width, kPitch - 1, &padded) ||
            __builtin_mul_overflow(padded / kPitch * kPitch, height, &bytes)) {
            return kMemoryAllocation;
        }
        const int error =
            allocate_here(open, MemoryKind::device, out, bytes, current, current.device);
        if (error == kSuccess) {
            *pitch = padded / kPitch * kPitch;
        }
        return error;
    });
}

// Without a pool, from that of the stream's device.
int ordered_call(Function self, DevicePointer *out, std::size_t bytes,
                 std::optional<MemoryPool> pool, Stream stream) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        const auto device = pool ? pool_device(*pool) : current.device;
        if (!device) {
            return kInvalidValue;
        }
        if (!is_stream(stream)) {
            return kInvalidResourceHandle;
        }
        const auto place = pool ? std::nullopt : place_of(stream);
        if (out != nullptr && bytes != 0) {
            if (const auto result = capture_allocation(open, stream, bytes, current.id, out)) {
                return *result;
            }
        }
        if (*device == kHost) {
            return allocate_here(open, MemoryKind::pinned_host, out, bytes, current,
                                 current.device);
        }
        if (place) {
            return allocate_here(open, MemoryKind::async, out, bytes,
                                 {kSuccess, place->device, place->context}, place->device);
        }
        return allocate_here(open, MemoryKind::async, out, bytes, current, *device);
    });
}

int free_here(const Call &open, MemoryKind kind, MemoryKinds kinds, void *memory) {
    const Current current = current_context();
    if (current.error != kSuccess) {
        return current.error;
    }
    run_hook(open);
    const auto allocation = release(memory, kinds);
    if (!allocation) {
        return kInvalidValue;
    }
    count_release(open, *allocation, kind);
    return kSuccess;
}

int free_call(Function self, MemoryKind kind, MemoryKinds kinds, void *memory) {
    return call(self, [&](const Call &open) -> int {
        const int error = current_context().error == kSuccess ? forbidden_as_unsafe() : kSuccess;
        return error == kSuccess ? free_here(open, kind, kinds, memory) : error;
    });
}

int register_call(Function self, void *memory, std::size_t bytes) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        if (memory == nullptr || bytes == 0) {
            return kInvalidValue;
        }
        run_hook(open);
        if (const int error = forbidden_as_unsafe(); error != kSuccess) {
            return error;
        }
        const bool counted = counts(open);
        if (!register_memory(memory, {bytes, MemoryKind::pinned_host, current.device, current.id,
                                      counted, open.image})) {
            return kAlreadyRegistered;
        }
        if (counted) {
            count_allocation(current.device, MemoryKind::pinned_host, bytes);
        }
        return kSuccess;
    });
}

int unregister_call(Function self, void *memory) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        if (const int error = forbidden_as_unsafe(); error != kSuccess) {
            return error;
        }
        run_hook(open);
        const auto registration = unregister_memory(memory);
        if (!registration) {
            return kNotRegistered;
        }
        count_release(open, *registration, MemoryKind::pinned_host);
        return kSuccess;
    });
}

int ordered_free_call(Function self, DevicePointer memory, Stream stream) {
    return call(self, [&](const Call &open) -> int {
        if (!is_stream(stream)) {
            return kInvalidResourceHandle;
        }
        if (const auto result = capture_free(open, stream, memory)) {
            return *result;
        }
        return free_here(open, MemoryKind::async, bit(MemoryKind::device) | bit(MemoryKind::async),
                         reinterpret_cast<void *>(memory));
    });
}

int memory_info(std::size_t *free_bytes, std::size_t *total_bytes) {
    const Current current = current_context();
    if (current.error != kSuccess) {
        return current.error;
    }
    if (free_bytes == nullptr || total_bytes == nullptr) {
        return kInvalidValue;
    }
    const MemoryUse use = memory_use();
    *free_bytes = use.free;
    *total_bytes = use.total;
    return kSuccess;
}

int new_pool(MemoryPool *pool, const PoolProperties *properties) {
    if (!driver_is_initialized()) {
        return kNotInitialized;
    }
    if (pool == nullptr || properties == nullptr ||
        (properties->location.type == kOnDevice && !is_device(properties->location.id))) {
        return kInvalidValue;
    }
    create_pool(pool, properties->location.type == kOnDevice ? properties->location.id : kHost);
    return kSuccess;
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE(cuMemAlloc_v2, (DevicePointer * memory, std::size_t bytes),
               allocation_call(self, MemoryKind::device, memory, bytes))
STANDIN_DEFINE(cuMemAllocPitch_v2,
               (DevicePointer * memory, std::size_t *pitch, std::size_t width, std::size_t height,
                unsigned element_bytes),
               pitched_call(self, memory, pitch, width, height, element_bytes))
STANDIN_DEFINE(cuMemAllocManaged, (DevicePointer * memory, std::size_t bytes, unsigned /*flags*/),
               allocation_call(self, MemoryKind::managed, memory, bytes))
STANDIN_DEFINE(cuMemAllocHost_v2, (void **memory, std::size_t bytes),
               allocation_call(self, MemoryKind::pinned_host, memory, bytes))
STANDIN_DEFINE(cuMemHostAlloc, (void **memory, std::size_t bytes, unsigned /*flags*/),
               allocation_call(self, MemoryKind::pinned_host, memory, bytes))
STANDIN_DEFINE_BOTH(cuMemAllocAsync, _ptsz,
                    (DevicePointer * memory, std::size_t bytes, Stream stream),
                    ordered_call(self, memory, bytes, {}, stream))
STANDIN_DEFINE_BOTH(cuMemAllocFromPoolAsync, _ptsz,
                    (DevicePointer * memory, std::size_t bytes, MemoryPool pool, Stream stream),
                    ordered_call(self, memory, bytes, pool, stream))

STANDIN_DEFINE_BOTH(cuMemHostRegister, _v2, (void *memory, std::size_t bytes, unsigned /*flags*/),
                    register_call(self, memory, bytes))
STANDIN_DEFINE(cuMemHostUnregister, (void *memory), unregister_call(self, memory))

STANDIN_DEFINE(cuMemFree_v2, (DevicePointer memory),
               free_call(self, MemoryKind::device,
                         bit(MemoryKind::device) | bit(MemoryKind::async) |
                             bit(MemoryKind::managed),
                         reinterpret_cast<void *>(memory)))
STANDIN_DEFINE(cuMemFreeHost, (void *memory),
               free_call(self, MemoryKind::pinned_host, bit(MemoryKind::pinned_host), memory))
STANDIN_DEFINE_BOTH(cuMemFreeAsync, _ptsz, (DevicePointer memory, Stream stream),
                    ordered_free_call(self, memory, stream))

STANDIN_DEFINE(cuMemGetInfo_v2, (std::size_t *free_bytes, std::size_t *total_bytes),
               call(self, [&](const Call &) { return memory_info(free_bytes, total_bytes); }))
STANDIN_DEFINE(cuMemPoolCreate, (MemoryPool * pool, const PoolProperties *properties),
               call(self, [&](const Call &) { return new_pool(pool, properties); }))
STANDIN_DEFINE(cuMemPoolDestroy, (MemoryPool pool),
               call(self, [&](const Call &) { return destroy_pool(pool); }))

}  // extern "C"
