// The functions that allocate, free and copy.

#include "cudart/call.h"
#include "cudart/memory.h"
#include "cudart/truth_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace standin {
namespace {

using truth::CopyKind;
using truth::CopyMode;
using truth::Function;
using truth::MemoryKind;

constexpr std::size_t kCopiedForReal = std::size_t{1} << 20U;

// The first allocation of a thread copies something, as a real one sets up the device's context.
void nest_in_allocation() {
    if (nesting() && !std::exchange(thread_state().allocated_before, true)) {
        const char from = 1;
        char to = 0;
        cudaMemcpy(&to, &from, sizeof to, kHostToHost);
    }
}

// A real copy of pageable memory may need a staging buffer.
void nest_in_copy() {
    if (nesting() && thread_state().depth == 1) {
        void *staging = nullptr;
        if (cudaMalloc(&staging, 64) == kSuccess) {
            cudaFree(staging);
        }
    }
}

int allocation_call(Function function, MemoryKind kind, void **pointer, std::size_t bytes) {
    const Call call = enter(function);
    if (pointer == nullptr) {
        return leave(call, kInvalidValue);
    }
    run_hook(call);
    if (function == Function::k_cudaMalloc) {
        nest_in_allocation();
    }
    const bool counted = counts(call);
    if (bytes == 0) {
        *pointer = nullptr;
        if (counted) {
            count_empty_allocation();
        }
        return leave(call, kSuccess);
    }
    void *memory = allocate({bytes, kind, counted, call.image});
    if (memory == nullptr) {
        return leave(call, kMemoryAllocation);
    }
    *pointer = memory;
    if (counted) {
        count_allocation(kind, bytes);
    }
    return leave(call, kSuccess);
}

int free_call(Function function, MemoryKinds kinds, void *pointer) {
    const Call call = enter(function);
    run_hook(call);
    if (pointer == nullptr) {
        if (counts(call)) {
            count_empty_free();
        }
        return leave(call, kSuccess);
    }
    const auto allocation = release(pointer, kinds);
    if (!allocation) {
        return leave(call, kInvalidValue);
    }
    if (counts(call)) {
        if (allocation->counted && allocation->image == call.image) {
            count_free(allocation->kind, allocation->bytes);
        } else {
            count_unknown_free(allocation->kind);
        }
    }
    return leave(call, kSuccess);
}

CopyKind resolve(const void *to, const void *from, int direction) {
    if (direction != kDefault) {
        return static_cast<CopyKind>(direction);
    }
    if (is_device_memory(to)) {
        return is_device_memory(from) ? CopyKind::d2d : CopyKind::h2d;
    }
    return is_device_memory(from) ? CopyKind::d2h : CopyKind::h2h;
}

int copy_call(Function function, CopyMode mode, void *to, const void *from, std::size_t bytes,
              int direction) {
    const Call call = enter(function);
    if (direction < kHostToHost || direction > kDefault) {
        return leave(call, kInvalidMemcpyDirection);
    }
    if (bytes != 0 && (to == nullptr || from == nullptr)) {
        return leave(call, kInvalidValue);
    }
    run_hook(call);
    if (function == Function::k_cudaMemcpy) {
        nest_in_copy();
    }
    if (bytes != 0) {
        std::memmove(to, from, std::min(bytes, kCopiedForReal));
    }
    if (counts(call)) {
        count_copy(resolve(to, from, direction), mode, bytes);
    }
    return leave(call, kSuccess);
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_EXPORT int cudaMalloc(void **pointer, std::size_t bytes) {
    return allocation_call(Function::k_cudaMalloc, MemoryKind::device, pointer, bytes);
}

STANDIN_EXPORT int cudaMallocManaged(void **pointer, std::size_t bytes, unsigned /*flags*/) {
    return allocation_call(Function::k_cudaMallocManaged, MemoryKind::managed, pointer, bytes);
}

STANDIN_EXPORT int cudaMallocHost(void **pointer, std::size_t bytes) {
    return allocation_call(Function::k_cudaMallocHost, MemoryKind::pinned_host, pointer, bytes);
}

STANDIN_EXPORT int cudaHostAlloc(void **pointer, std::size_t bytes, unsigned /*flags*/) {
    return allocation_call(Function::k_cudaHostAlloc, MemoryKind::pinned_host, pointer, bytes);
}

STANDIN_EXPORT int cudaMallocAsync(void **pointer, std::size_t bytes, Stream /*stream*/) {
    return allocation_call(Function::k_cudaMallocAsync, MemoryKind::async, pointer, bytes);
}

STANDIN_EXPORT int cudaFree(void *pointer) {
    constexpr MemoryKinds kKinds =
        bit(MemoryKind::device) | bit(MemoryKind::async) | bit(MemoryKind::managed);
    return free_call(Function::k_cudaFree, kKinds, pointer);
}

STANDIN_EXPORT int cudaFreeHost(void *pointer) {
    return free_call(Function::k_cudaFreeHost, bit(MemoryKind::pinned_host), pointer);
}

STANDIN_EXPORT int cudaFreeAsync(void *pointer, Stream /*stream*/) {
    constexpr MemoryKinds kKinds = bit(MemoryKind::device) | bit(MemoryKind::async);
    return free_call(Function::k_cudaFreeAsync, kKinds, pointer);
}

STANDIN_EXPORT int cudaMemGetInfo(std::size_t *free_bytes, std::size_t *total_bytes) {
    const Call call = enter(Function::k_cudaMemGetInfo);
    if (free_bytes == nullptr || total_bytes == nullptr) {
        return leave(call, kInvalidValue);
    }
    const MemoryUse use = memory_use();
    *free_bytes = use.limit - use.used;
    *total_bytes = use.limit;
    return leave(call, kSuccess);
}

STANDIN_EXPORT int cudaMemcpy(void *to, const void *from, std::size_t bytes, int direction) {
    return copy_call(Function::k_cudaMemcpy, CopyMode::sync, to, from, bytes, direction);
}

STANDIN_EXPORT int cudaMemcpy_ptds(void *to, const void *from, std::size_t bytes, int direction) {
    return copy_call(Function::k_cudaMemcpy_ptds, CopyMode::sync, to, from, bytes, direction);
}

STANDIN_EXPORT int cudaMemcpyAsync(void *to, const void *from, std::size_t bytes, int direction,
                                   Stream /*stream*/) {
    return copy_call(Function::k_cudaMemcpyAsync, CopyMode::async, to, from, bytes, direction);
}

STANDIN_EXPORT int cudaMemcpyAsync_ptsz(void *to, const void *from, std::size_t bytes,
                                        int direction, Stream /*stream*/) {
    return copy_call(Function::k_cudaMemcpyAsync_ptsz, CopyMode::async, to, from, bytes, direction);
}

}  // extern "C"
