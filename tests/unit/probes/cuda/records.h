// Records as the kernel would send them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/attach/functions.h"

namespace gpusnoop::probes {

inline constexpr std::uint32_t bench_pid = 42;
inline constexpr std::uint64_t bench_since = 1'000;
inline constexpr std::uint64_t second_ns = 1'000'000'000;

// The number that records have for a function.
inline std::uint16_t function_of(std::string_view symbol) {
    const auto functions = cuda_functions();
    const auto found = std::ranges::find(functions, symbol, &CudaFunction::symbol);
    if (found == functions.end()) {
        throw std::invalid_argument(std::string(symbol));
    }
    return static_cast<std::uint16_t>(found - functions.begin());
}

inline cuda_record head(std::uint16_t type, std::string_view symbol, std::uint64_t ended_ns,
                        std::int32_t device = 0) {
    cuda_record record{};
    record.ended_ns = ended_ns;
    record.duration_ns = 1'000;
    record.since_ns = bench_since;
    record.tgid = bench_pid;
    record.type = type;
    record.function = symbol.empty() ? CUDA_NO_FUNCTION : function_of(symbol);
    record.device = device;
    return record;
}

inline cuda_process_record process(std::string_view comm = "python", std::uint32_t pid = bench_pid,
                                   std::uint64_t since = bench_since) {
    cuda_process_record record{};
    record.head = head(CUDA_RECORD_PROCESS, "", since, CUDA_DEVICE_UNCHOSEN);
    record.head.tgid = pid;
    record.head.since_ns = since;
    std::memcpy(record.identity.comm, comm.data(),
                std::min(comm.size(), sizeof(record.identity.comm)));
    return record;
}

// The record, of another process.
template <typename Record>
Record of(std::uint32_t pid, std::uint64_t since, Record record) {
    record.head.tgid = pid;
    record.head.since_ns = since;
    return record;
}

inline std::string_view allocator_of(std::uint16_t kind) {
    constexpr std::array<std::string_view, MEMORY_KIND_COUNT> names = {
        "cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cudaHostAlloc", "cuMemCreate"};
    return names.at(kind);
}

inline std::string_view releaser_of(std::uint16_t kind) {
    constexpr std::array<std::string_view, MEMORY_KIND_COUNT> names = {
        "cudaFree", "cudaFreeAsync", "cudaFree", "cudaFreeHost", "cuMemRelease"};
    return names.at(kind);
}

inline cuda_allocation_record allocation(std::uint64_t address, std::uint64_t bytes,
                                         std::uint64_t at, std::uint16_t kind = MEMORY_device,
                                         std::int32_t device = 0) {
    cuda_allocation_record record{};
    record.head = head(CUDA_RECORD_ALLOCATE, allocator_of(kind), at, device);
    record.address = address;
    record.bytes = bytes;
    record.born_ns = at;
    record.stack = -1;
    record.kind = kind;
    return record;
}

// The free of what `of` allocated.
inline cuda_allocation_record release(const cuda_allocation_record &of, std::uint64_t at) {
    cuda_allocation_record record = of;
    record.head.type = CUDA_RECORD_FREE;
    record.head.function = function_of(releaser_of(of.kind));
    record.head.ended_ns = at;
    record.flags = CUDA_ALLOCATION_KNOWN;
    return record;
}

// The free of memory that is not in the kernel's table.
inline cuda_allocation_record unknown_release(std::uint64_t address, std::uint64_t at,
                                              std::uint16_t kind = MEMORY_device) {
    cuda_allocation_record record{};
    record.head = head(CUDA_RECORD_FREE, releaser_of(kind), at);
    record.address = address;
    record.kind = kind;
    return record;
}

inline cuda_reset_record reset(std::int32_t device, std::uint64_t at, std::uint64_t context = 0) {
    return {head(CUDA_RECORD_RESET, context == 0 ? "cudaDeviceReset" : "cuCtxDestroy_v2", at,
                 context == 0 ? device : CUDA_DEVICE_UNKNOWN),
            context};
}

inline cuda_mapping_record mapping(std::uint16_t type, std::uint64_t address, std::uint64_t bytes,
                                   std::uint64_t at) {
    return {head(type, type == CUDA_RECORD_MAP ? "cuMemMap" : "cuMemUnmap", at), address, bytes, 0,
            0};
}

inline cuda_copy_record copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes,
                             std::uint32_t kind, std::uint64_t at) {
    return {head(CUDA_RECORD_COPY, "cudaMemcpy", at), to, from, bytes, 0, kind, 0};
}

inline cuda_copy_record async_copy(std::uint64_t stream, std::uint64_t bytes, std::uint64_t at,
                                   std::uint32_t kind = COPY_H2D) {
    return {head(CUDA_RECORD_COPY, "cudaMemcpyAsync", at), 1, 2, bytes, stream, kind, 1};
}

inline cuda_wait_record wait(std::uint64_t stream, std::uint64_t at) {
    return {
        head(CUDA_RECORD_WAIT,
             stream == CUDA_ALL_STREAMS ? "cudaDeviceSynchronize" : "cudaStreamSynchronize", at),
        stream};
}

inline cuda_launch_record launch(std::uint64_t kernel, std::uint32_t grid,
                                 std::uint64_t at = 2'000) {
    return {head(CUDA_RECORD_LAUNCH, "cudaLaunchKernel", at), kernel, {grid, 1, 1}, {32, 2, 1}};
}

inline cuda_kernel_record stands_for(std::uint64_t handle, std::uint64_t other) {
    return {head(CUDA_RECORD_KERNEL, "__cudaGetKernel", 1'000), handle, other};
}

inline cuda_name_record named(std::uint64_t handle, std::string_view name,
                              std::uint64_t at = 1'000) {
    cuda_name_record record{};
    record.head = head(CUDA_RECORD_NAME, "cuModuleGetFunction", at);
    record.handle = handle;
    std::memcpy(record.name, name.data(), std::min(name.size(), sizeof(record.name)));
    return record;
}

inline cuda_graph_record graph_launch(std::uint64_t executable, std::uint64_t at,
                                      std::int32_t device = 0) {
    return {head(CUDA_RECORD_GRAPH, "cudaGraphLaunch", at, device), executable, 0};
}

// A change of graphs, by this function.
inline cuda_change_record change(std::string_view symbol, std::uint64_t handle, std::uint64_t node,
                                 std::uint64_t at) {
    cuda_change_record record{};
    record.head = head(CUDA_RECORD_CHANGE, symbol, at);
    record.handle = handle;
    record.node = node;
    record.operation = cuda_functions()[function_of(symbol)].operation;
    record.holds = CUDA_NODE_NOTHING;
    return record;
}

// The same, or a call that was captured, which launches a kernel.
inline cuda_change_record launching(cuda_change_record record, std::uint64_t kernel,
                                    std::uint32_t grid) {
    record.holds = CUDA_NODE_LAUNCH;
    record.address = kernel;
    record.detail.launch.grid[0] = grid;
    record.detail.launch.grid[1] = record.detail.launch.grid[2] = 1;
    record.detail.launch.block[0] = 32;
    record.detail.launch.block[1] = 2;
    record.detail.launch.block[2] = 1;
    return record;
}

// The same, which copies.
inline cuda_change_record copying(cuda_change_record record, std::uint64_t to, std::uint64_t from,
                                  std::uint64_t bytes, std::uint32_t kind) {
    record.holds = CUDA_NODE_COPY;
    record.address = to;
    record.detail.copy.source = from;
    record.detail.copy.bytes = bytes;
    record.detail.copy.kind = kind;
    return record;
}

// A call on a stream of the capture.
inline cuda_change_record captured(std::string_view symbol, std::uint64_t capture,
                                   std::uint64_t at) {
    cuda_change_record record = change(symbol, capture, 0, at);
    record.head.type = CUDA_RECORD_CAPTURED;
    return record;
}

inline cuda_failed_record failed(std::string_view symbol, std::int32_t result) {
    cuda_failed_record record{};
    record.head = head(CUDA_RECORD_FAILED, symbol, 2'000);
    record.head.result = result;
    record.stack = -1;
    record.kind = CUDA_NO_MEMORY_KIND;
    return record;
}

// Refused for lack of memory, on this device.
inline cuda_failed_record refused(std::uint64_t bytes, std::uint64_t at, std::uint32_t tid = 7,
                                  std::uint16_t kind = MEMORY_device, std::int32_t device = 0) {
    cuda_failed_record record{};
    record.head = head(CUDA_RECORD_FAILED, allocator_of(kind), at, device);
    record.head.result = CUDA_OUT_OF_MEMORY;
    record.bytes = bytes;
    record.caller = 0x1234;
    record.stack = -1;
    record.tid = tid;
    record.kind = kind;
    return record;
}

inline cuda_repaired_record repaired(const cuda_failed_record &of, std::uint64_t at) {
    cuda_repaired_record record{};
    record.head = of.head;
    record.head.type = CUDA_RECORD_REPAIRED;
    record.head.result = 0;
    record.head.ended_ns = at;
    record.refused_ns = of.head.ended_ns;
    record.tid = of.tid;
    return record;
}

inline cuda_free_memory_record free_memory(std::uint64_t free, std::uint64_t total,
                                           std::uint64_t at, std::int32_t device = 0) {
    return {head(CUDA_RECORD_FREE_MEMORY, "cudaMemGetInfo", at, device), free, total};
}

inline cuda_exit_record exited(std::uint64_t at, std::uint64_t lost = 0, std::uint64_t cost = 0,
                               std::uint64_t ran = 0) {
    return {head(CUDA_RECORD_EXIT, "", at, CUDA_DEVICE_UNCHOSEN), lost, cost, ran};
}

}  // namespace gpusnoop::probes
