// The part of the CUDA runtime's C interface that the stand-in offers, declared without CUDA's
// headers, and what it adds for tests.

#pragma once

#include "cuda_types.h"

#include <cstddef>
#include <cstdint>

// With per-thread default streams, programs call a second function, which takes the same arguments.
#define STANDIN_RUNTIME_BOTH(name, suffix, ...) \
    int name(__VA_ARGS__);                      \
    int name##suffix(__VA_ARGS__)

// The names are CUDA's, reserved or not.
extern "C" {
int cudaMalloc(void **pointer, std::size_t bytes);
int cudaMallocManaged(void **pointer, std::size_t bytes, unsigned flags);
int cudaMallocHost(void **pointer, std::size_t bytes);
int cudaHostAlloc(void **pointer, std::size_t bytes, unsigned flags);
int cudaMallocPitch(void **pointer, std::size_t *pitch, std::size_t width, std::size_t height);
int cudaMalloc3D(standin::PitchedPointer *pointer, standin::Extent extent);
STANDIN_RUNTIME_BOTH(cudaMallocAsync, _ptsz, void **pointer, std::size_t bytes,
                     standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaMallocFromPoolAsync, _ptsz, void **pointer, std::size_t bytes,
                     standin::MemoryPool pool, standin::Stream stream);
int cudaHostRegister(void *memory, std::size_t bytes, unsigned flags);
int cudaHostUnregister(void *memory);
int cudaFree(void *pointer);
int cudaFreeHost(void *pointer);
STANDIN_RUNTIME_BOTH(cudaFreeAsync, _ptsz, void *pointer, standin::Stream stream);
int cudaMemGetInfo(std::size_t *free_bytes, std::size_t *total_bytes);
int cudaDeviceGetDefaultMemPool(standin::MemoryPool *pool, int device);
int cudaDeviceGetMemPool(standin::MemoryPool *pool, int device);
int cudaMemGetDefaultMemPool(standin::MemoryPool *pool, standin::MemoryLocation *location,
                             int type);
int cudaMemGetMemPool(standin::MemoryPool *pool, standin::MemoryLocation *location, int type);
int cudaMemPoolCreate(standin::MemoryPool *pool, const standin::PoolProperties *properties);
int cudaMemPoolDestroy(standin::MemoryPool pool);

STANDIN_RUNTIME_BOTH(cudaMemcpy, _ptds, void *to, const void *from, std::size_t bytes,
                     int direction);
STANDIN_RUNTIME_BOTH(cudaMemcpyAsync, _ptsz, void *to, const void *from, std::size_t bytes,
                     int direction, standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaMemcpy2D, _ptds, void *to, std::size_t to_pitch, const void *from,
                     std::size_t from_pitch, std::size_t width, std::size_t height, int direction);
STANDIN_RUNTIME_BOTH(cudaMemcpy2DAsync, _ptsz, void *to, std::size_t to_pitch, const void *from,
                     std::size_t from_pitch, std::size_t width, std::size_t height, int direction,
                     standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaMemcpy3D, _ptds, const standin::Copy3D *copy);
STANDIN_RUNTIME_BOTH(cudaMemcpy3DAsync, _ptsz, const standin::Copy3D *copy, standin::Stream stream);
int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, std::size_t bytes);
int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                        std::size_t bytes, standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaMemcpy3DPeer, _ptds, const standin::Copy3DPeer *copy);
STANDIN_RUNTIME_BOTH(cudaMemcpy3DPeerAsync, _ptsz, const standin::Copy3DPeer *copy,
                     standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaMemcpyToSymbol, _ptds, const void *symbol, const void *from,
                     std::size_t bytes, std::size_t offset, int direction);
STANDIN_RUNTIME_BOTH(cudaMemcpyToSymbolAsync, _ptsz, const void *symbol, const void *from,
                     std::size_t bytes, std::size_t offset, int direction, standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaMemcpyFromSymbol, _ptds, void *to, const void *symbol, std::size_t bytes,
                     std::size_t offset, int direction);
STANDIN_RUNTIME_BOTH(cudaMemcpyFromSymbolAsync, _ptsz, void *to, const void *symbol,
                     std::size_t bytes, std::size_t offset, int direction, standin::Stream stream);

#if !defined(STANDIN_CUDA_MAJOR) || STANDIN_CUDA_MAJOR < 13
STANDIN_RUNTIME_BOTH(cudaMemcpyBatchAsync, _ptsz, void **to, void **from, std::size_t *bytes,
                     std::size_t count, standin::CopyAttributes *attributes, std::size_t *starts,
                     std::size_t attribute_count, std::size_t *failed, standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaMemcpy3DBatchAsync, _ptsz, std::size_t count,
                     standin::BatchedCopy3D *copies, std::size_t *failed, unsigned long long flags,
                     standin::Stream stream);
#else
STANDIN_RUNTIME_BOTH(cudaMemcpyBatchAsync, _ptsz, void *const *to, const void *const *from,
                     const std::size_t *bytes, std::size_t count,
                     standin::CopyAttributes *attributes, std::size_t *starts,
                     std::size_t attribute_count, standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaMemcpy3DBatchAsync, _ptsz, std::size_t count,
                     standin::BatchedCopy3D *copies, unsigned long long flags,
                     standin::Stream stream);
#endif

STANDIN_RUNTIME_BOTH(cudaMemset, _ptds, void *to, int value, std::size_t bytes);
STANDIN_RUNTIME_BOTH(cudaMemsetAsync, _ptsz, void *to, int value, std::size_t bytes,
                     standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaMemset2D, _ptds, void *to, std::size_t pitch, int value, std::size_t width,
                     std::size_t height);
STANDIN_RUNTIME_BOTH(cudaMemset2DAsync, _ptsz, void *to, std::size_t pitch, int value,
                     std::size_t width, std::size_t height, standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaMemset3D, _ptds, standin::PitchedPointer to, int value,
                     standin::Extent extent);
STANDIN_RUNTIME_BOTH(cudaMemset3DAsync, _ptsz, standin::PitchedPointer to, int value,
                     standin::Extent extent, standin::Stream stream);

STANDIN_RUNTIME_BOTH(cudaLaunchKernel, _ptsz, const void *function, standin::Dim3 grid,
                     standin::Dim3 block, void **arguments, std::size_t shared_bytes,
                     standin::Stream stream);
STANDIN_RUNTIME_BOTH(__cudaLaunchKernel, _ptsz, standin::Kernel kernel, standin::Dim3 grid,
                     standin::Dim3 block, void **arguments, std::size_t shared_bytes,
                     standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaLaunchCooperativeKernel, _ptsz, const void *function, standin::Dim3 grid,
                     standin::Dim3 block, void **arguments, std::size_t shared_bytes,
                     standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaLaunchKernelExC, _ptsz, const standin::LaunchConfig *config,
                     const void *function, void **arguments);
int __cudaGetKernel(standin::Kernel *kernel, const void *host_stub);
int cudaGetKernel(standin::Kernel *kernel, const void *host_stub);
int cudaGetFuncBySymbol(standin::DriverFunction *function, const void *host_stub);
unsigned __cudaPushCallConfiguration(standin::Dim3 grid, standin::Dim3 block,
                                     std::size_t shared_bytes, standin::Stream stream);
int __cudaPopCallConfiguration(standin::Dim3 *grid, standin::Dim3 *block, std::size_t *shared_bytes,
                               void *stream);

void **__cudaRegisterFatBinary(void *fat_binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host_stub, char *device_function,
                            const char *device_name, int thread_limit, void *thread, void *block,
                            void *block_size, void *grid_size, int *warp_size);
void __cudaRegisterVar(void **handle, char *host_variable, char *device_address,
                       const char *device_name, int external, std::size_t size, int constant,
                       int global);
void __cudaRegisterManagedVar(void **handle, void **host_variable, char *device_address,
                              const char *device_name, int external, std::size_t size, int constant,
                              int global);
char __cudaInitModule(void **handle);

int cudaDeviceSynchronize();
int cudaDeviceReset();
int cudaStreamCreate(standin::Stream *stream);
int cudaStreamCreateWithFlags(standin::Stream *stream, unsigned flags);
int cudaStreamCreateWithPriority(standin::Stream *stream, unsigned flags, int priority);
int cudaExecutionCtxStreamCreate(standin::Stream *stream, standin::Context context, unsigned flags,
                                 int priority);
STANDIN_RUNTIME_BOTH(cudaStreamSynchronize, _ptsz, standin::Stream stream);
int cudaStreamDestroy(standin::Stream stream);
int cudaEventCreate(standin::Event *event);
STANDIN_RUNTIME_BOTH(cudaEventRecord, _ptsz, standin::Event event, standin::Stream stream);
STANDIN_RUNTIME_BOTH(cudaEventRecordWithFlags, _ptsz, standin::Event event, standin::Stream stream,
                     unsigned flags);
int cudaEventQuery(standin::Event event);
int cudaEventSynchronize(standin::Event event);
STANDIN_RUNTIME_BOTH(cudaEventElapsedTime, _v2, float *milliseconds, standin::Event start,
                     standin::Event end);
int cudaEventDestroy(standin::Event event);
int cudaGetDeviceCount(int *count);
int cudaSetDevice(int device);
int cudaGetDevice(int *device);
int cudaRuntimeGetVersion(int *version);
int cudaDriverGetVersion(int *version);
int cudaGetLastError();
int cudaPeekAtLastError();
const char *cudaGetErrorString(int error);
const char *cudaGetErrorName(int error);

// See driver/core.h.
void standin_set_hook(standin::Hook hook, void *context);
void standin_reset_depth();
}

#include "cudart/cudart_graphs.h"
