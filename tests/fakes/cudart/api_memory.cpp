// The functions that allocate and free.

#include "cudart/call.h"

#include <utility>

namespace standin {
namespace {

using truth::Function;
using truth::MemoryKind;

// The first allocation of a thread copies something, as a real one sets up the device's context.
void nest_in_allocation() {
    if (core().nesting() && !std::exchange(thread_state().allocated_before, true)) {
        const char from = 1;
        char to = 0;
        cudaMemcpy(&to, &from, sizeof to, kHostToHost);
    }
}

// `allocate` calls the driver. Without bytes there is no pointer, and no error either.
template <typename Allocate>
int allocation_call(Function self, MemoryKind kind, void **pointer, std::size_t bytes,
                    Allocate &&allocate) {
    return call(self, [&](const Call &open) -> int {
        if (pointer == nullptr) {
            return kInvalidValue;
        }
        if (const int error = use_device(); error != kSuccess) {
            return error;
        }
        core().run_hook(open);
        if (self == Function::k_cudaMalloc) {
            nest_in_allocation();
        }
        if (bytes == 0) {
            *pointer = nullptr;
            core().count_empty_allocation(open, kind);
            return kSuccess;
        }
        return allocate(open);
    });
}

template <typename... Parameters, typename... Rest>
int allocation_call(Function self, MemoryKind kind, void **pointer, std::size_t bytes,
                    int (*function)(DevicePointer *, std::size_t, Parameters...), Rest... rest) {
    return allocation_call(self, kind, pointer, bytes, [&](const Call &open) {
        return on_behalf(open, {}, function, reinterpret_cast<DevicePointer *>(pointer), bytes,
                         rest...);
    });
}

template <typename... Parameters, typename... Rest>
int host_call(Function self, void **pointer, std::size_t bytes,
              int (*function)(void **, std::size_t, Parameters...), Rest... rest) {
    return allocation_call(self, MemoryKind::pinned_host, pointer, bytes, [&](const Call &open) {
        return on_behalf(open, {}, function, pointer, bytes, rest...);
    });
}

int pitched_call(Function self, void **pointer, std::size_t *pitch, std::size_t width,
                 std::size_t rows) {
    return allocation_call(self, MemoryKind::device, pitch == nullptr ? nullptr : pointer,
                           rows == 0 ? 0 : width, [&](const Call &open) {
                               return on_behalf(open, {}, driver().cuMemAllocPitch_v2,
                                                reinterpret_cast<DevicePointer *>(pointer), pitch,
                                                width, rows, 4U);
                           });
}

int allocate_rows(Function self, void **pointer, std::size_t *pitch, std::size_t width,
                  std::size_t height) {
    if (pitch != nullptr && (width == 0 || height == 0)) {
        *pitch = 0;
    }
    return pitched_call(self, pointer, pitch, width, height);
}

int allocate_planes(Function self, PitchedPointer *out, const Extent &extent) {
    if (out == nullptr) {
        return pitched_call(self, nullptr, nullptr, 0, 0);
    }
    std::size_t rows = 0;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) {
        return call(self, [](const Call &) { return kMemoryAllocation; });
    }
    PitchedPointer made{nullptr, 0, extent.width, extent.height};
    const int error = pitched_call(self, &made.pointer, &made.pitch, extent.width, rows);
    if (error == kSuccess) {
        *out = made;
    }
    return error;
}

template <typename... Parameters, typename... Arguments>
int free_call(Function self, void *pointer, int (*function)(Parameters...),
              Arguments... arguments) {
    return call(self, [&](const Call &open) -> int {
        if (const int error = use_device(); error != kSuccess) {
            return error;
        }
        core().run_hook(open);
        if (pointer == nullptr) {
            core().count_empty_free(open);
            return kSuccess;
        }
        return on_behalf(open, {}, function, arguments...);
    });
}

// All of it is the driver's work.
template <typename... Parameters, typename... Arguments>
int driver_call(Function self, int (*function)(Parameters...), Arguments... arguments) {
    return call(self, [&](const Call &open) -> int {
        const int error = use_device();
        return error == kSuccess ? on_behalf(open, {}, function, arguments...) : error;
    });
}

template <typename... Out>
int answer_call(Function self, int (*function)(Out *...), Out *...out) {
    return call(self, [&](const Call &) -> int {
        const int error = use_device();
        return error == kSuccess ? function(out...) : error;
    });
}

int default_pool(MemoryPool *pool, int device) {
    const int error = use_device();
    return error == kSuccess ? driver().cuDeviceGetDefaultMemPool(pool, device) : error;
}

// From CUDA 13 on.
int located_pool(Function self, int (*function)(MemoryPool *, MemoryLocation *, int),
                 MemoryPool *pool, MemoryLocation *location, int type) {
    return call(self, [&](const Call &) {
        const int error = use_device();
        return error == kSuccess ? function(pool, location, type) : error;
    });
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE(cudaMalloc, (void **pointer, std::size_t bytes),
               allocation_call(self, MemoryKind::device, pointer, bytes, driver().cuMemAlloc_v2))
STANDIN_DEFINE(cudaMallocManaged, (void **pointer, std::size_t bytes, unsigned flags),
               allocation_call(self, MemoryKind::managed, pointer, bytes,
                               driver().cuMemAllocManaged, flags))
STANDIN_DEFINE(cudaMallocHost, (void **pointer, std::size_t bytes),
               host_call(self, pointer, bytes, driver().cuMemAllocHost_v2))
STANDIN_DEFINE(cudaHostAlloc, (void **pointer, std::size_t bytes, unsigned flags),
               host_call(self, pointer, bytes, driver().cuMemHostAlloc, flags))
STANDIN_DEFINE(cudaHostRegister, (void *memory, std::size_t bytes, unsigned flags),
               driver_call(self, driver().cuMemHostRegister_v2, memory, bytes, flags))
STANDIN_DEFINE(cudaHostUnregister, (void *memory),
               driver_call(self, driver().cuMemHostUnregister, memory))
STANDIN_DEFINE(cudaMallocPitch,
               (void **pointer, std::size_t *pitch, std::size_t width, std::size_t height),
               allocate_rows(self, pointer, pitch, width, height))
STANDIN_DEFINE(cudaMalloc3D, (PitchedPointer * pointer, Extent extent),
               allocate_planes(self, pointer, extent))
STANDIN_DEFINE(cudaMallocAsync, (void **pointer, std::size_t bytes, Stream stream),
               allocation_call(self, MemoryKind::async, pointer, bytes, driver().cuMemAllocAsync,
                               stream))
STANDIN_DEFINE(cudaMallocAsync_ptsz, (void **pointer, std::size_t bytes, Stream stream),
               allocation_call(self, MemoryKind::async, pointer, bytes,
                               driver().cuMemAllocAsync_ptsz, stream))
STANDIN_DEFINE(cudaMallocFromPoolAsync,
               (void **pointer, std::size_t bytes, MemoryPool pool, Stream stream),
               allocation_call(self, MemoryKind::async, pointer, bytes,
                               driver().cuMemAllocFromPoolAsync, pool, stream))
STANDIN_DEFINE(cudaMallocFromPoolAsync_ptsz,
               (void **pointer, std::size_t bytes, MemoryPool pool, Stream stream),
               allocation_call(self, MemoryKind::async, pointer, bytes,
                               driver().cuMemAllocFromPoolAsync_ptsz, pool, stream))

STANDIN_DEFINE(cudaFree, (void *pointer),
               free_call(self, pointer, driver().cuMemFree_v2, address(pointer)))
STANDIN_DEFINE(cudaFreeHost, (void *pointer),
               free_call(self, pointer, driver().cuMemFreeHost, pointer))
STANDIN_DEFINE(cudaFreeAsync, (void *pointer, Stream stream),
               free_call(self, pointer, driver().cuMemFreeAsync, address(pointer), stream))
STANDIN_DEFINE(cudaFreeAsync_ptsz, (void *pointer, Stream stream),
               free_call(self, pointer, driver().cuMemFreeAsync_ptsz, address(pointer), stream))

STANDIN_DEFINE(cudaMemGetInfo, (std::size_t *free_bytes, std::size_t *total_bytes),
               answer_call(self, driver().cuMemGetInfo_v2, free_bytes, total_bytes))
STANDIN_DEFINE(cudaDeviceGetDefaultMemPool, (MemoryPool * pool, int device),
               call(self, [&](const Call &) { return default_pool(pool, device); }))
STANDIN_DEFINE(cudaDeviceGetMemPool, (MemoryPool * pool, int device),
               call(self, [&](const Call &) { return default_pool(pool, device); }))
STANDIN_DEFINE(cudaMemGetDefaultMemPool, (MemoryPool * pool, MemoryLocation *location, int type),
               located_pool(self, driver().cuMemGetDefaultMemPool, pool, location, type))
STANDIN_DEFINE(cudaMemGetMemPool, (MemoryPool * pool, MemoryLocation *location, int type),
               located_pool(self, driver().cuMemGetMemPool, pool, location, type))
STANDIN_DEFINE(cudaMemPoolCreate, (MemoryPool * pool, const PoolProperties *properties),
               call(self, [&](const Call &) -> int {
                   const int error = use_device();
                   return error == kSuccess ? driver().cuMemPoolCreate(pool, properties) : error;
               }))
STANDIN_DEFINE(cudaMemPoolDestroy, (MemoryPool pool),
               call(self, [&](const Call &) { return driver().cuMemPoolDestroy(pool); }))

}  // extern "C"
