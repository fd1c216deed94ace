// The part of the CUDA driver's C interface that the stand-in offers, declared without CUDA's
// headers.

#pragma once

#include "cuda_types.h"

#include <cstddef>
#include <cstdint>

// With per-thread default streams, programs call a second function, which takes the same arguments.
#define STANDIN_BOTH(name, suffix, ...) \
    int name(__VA_ARGS__);              \
    int name##suffix(__VA_ARGS__)

// The names are CUDA's, reserved or not.
extern "C" {
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetErrorName(int error, const char **name);
int cuGetProcAddress_v2(const char *symbol, void **function, int version, std::uint64_t flags,
                        int *status);

int cuDeviceGetCount(int *count);
int cuDeviceGet(standin::Device *device, int ordinal);
int cuDeviceGetDefaultMemPool(standin::MemoryPool *pool, standin::Device device);
int cuDeviceGetMemPool(standin::MemoryPool *pool, standin::Device device);
int cuDevicePrimaryCtxRetain(standin::Context *context, standin::Device device);
int cuDevicePrimaryCtxRelease_v2(standin::Device device);
int cuDevicePrimaryCtxReset_v2(standin::Device device);

int cuCtxCreate_v2(standin::Context *context, unsigned flags, standin::Device device);
int cuCtxCreate_v3(standin::Context *context, void *affinities, int affinity_count, unsigned flags,
                   standin::Device device);
int cuCtxCreate_v4(standin::Context *context, standin::ContextParameters *parameters,
                   unsigned flags, standin::Device device);
int cuCtxDestroy_v2(standin::Context context);
int cuCtxSetCurrent(standin::Context context);
int cuCtxGetCurrent(standin::Context *context);
int cuCtxPushCurrent_v2(standin::Context context);
int cuCtxPopCurrent_v2(standin::Context *context);
int cuCtxGetDevice(standin::Device *device);
int cuCtxSynchronize();

int cuStreamCreate(standin::Stream *stream, unsigned flags);
int cuStreamCreateWithPriority(standin::Stream *stream, unsigned flags, int priority);
int cuGreenCtxStreamCreate(standin::Stream *stream, standin::Context context, unsigned flags,
                           int priority);
int cuStreamDestroy_v2(standin::Stream stream);
STANDIN_BOTH(cuStreamSynchronize, _ptsz, standin::Stream stream);
STANDIN_BOTH(cuStreamQuery, _ptsz, standin::Stream stream);
STANDIN_BOTH(cuLaunchHostFunc, _ptsz, standin::Stream stream, standin::HostFunction function,
             void *argument);

int cuEventCreate(standin::Event *event, unsigned flags);
int cuEventDestroy_v2(standin::Event event);
int cuEventSynchronize(standin::Event event);
int cuEventQuery(standin::Event event);
STANDIN_BOTH(cuEventRecord, _ptsz, standin::Event event, standin::Stream stream);
STANDIN_BOTH(cuEventRecordWithFlags, _ptsz, standin::Event event, standin::Stream stream,
             unsigned flags);
STANDIN_BOTH(cuStreamWaitEvent, _ptsz, standin::Stream stream, standin::Event event,
             unsigned flags);
STANDIN_BOTH(cuEventElapsedTime, _v2, float *milliseconds, standin::Event start,
             standin::Event end);

int cuMemGetInfo_v2(std::size_t *free_bytes, std::size_t *total_bytes);
int cuMemAlloc_v2(standin::DevicePointer *memory, std::size_t bytes);
int cuMemAllocPitch_v2(standin::DevicePointer *memory, std::size_t *pitch, std::size_t width,
                       std::size_t height, unsigned element_bytes);
int cuMemAllocManaged(standin::DevicePointer *memory, std::size_t bytes, unsigned flags);
int cuMemAllocHost_v2(void **memory, std::size_t bytes);
int cuMemHostAlloc(void **memory, std::size_t bytes, unsigned flags);
STANDIN_BOTH(cuMemAllocAsync, _ptsz, standin::DevicePointer *memory, std::size_t bytes,
             standin::Stream stream);
STANDIN_BOTH(cuMemAllocFromPoolAsync, _ptsz, standin::DevicePointer *memory, std::size_t bytes,
             standin::MemoryPool pool, standin::Stream stream);
STANDIN_BOTH(cuMemHostRegister, _v2, void *memory, std::size_t bytes, unsigned flags);
int cuMemHostUnregister(void *memory);
int cuMemFree_v2(standin::DevicePointer memory);
int cuMemFreeHost(void *memory);
STANDIN_BOTH(cuMemFreeAsync, _ptsz, standin::DevicePointer memory, standin::Stream stream);
int cuMemGetDefaultMemPool(standin::MemoryPool *pool, standin::MemoryLocation *location, int type);
int cuMemGetMemPool(standin::MemoryPool *pool, standin::MemoryLocation *location, int type);
int cuMemPoolCreate(standin::MemoryPool *pool, const standin::PoolProperties *properties);
int cuMemPoolDestroy(standin::MemoryPool pool);

int cuMemAddressReserve(standin::DevicePointer *address, std::size_t bytes, std::size_t alignment,
                        standin::DevicePointer wish, std::uint64_t flags);
int cuMemAddressFree(standin::DevicePointer address, std::size_t bytes);
int cuMemCreate(standin::MemoryHandle *handle, std::size_t bytes,
                const standin::MemoryProperties *properties, std::uint64_t flags);
int cuMemRelease(standin::MemoryHandle handle);
int cuMemMap(standin::DevicePointer address, std::size_t bytes, std::size_t offset,
             standin::MemoryHandle handle, std::uint64_t flags);
int cuMemUnmap(standin::DevicePointer address, std::size_t bytes);
int cuMemSetAccess(standin::DevicePointer address, std::size_t bytes,
                   const standin::MemoryAccess *access, std::size_t count);
int cuMemRetainAllocationHandle(standin::MemoryHandle *handle, void *address);
// The stand-in takes any `shared` for memory of another process.
int cuMemImportFromShareableHandle(standin::MemoryHandle *handle, void *shared, int type);
int cuMulticastCreate(standin::MemoryHandle *handle, const void *properties);

STANDIN_BOTH(cuMemcpy, _ptds, standin::DevicePointer to, standin::DevicePointer from,
             std::size_t bytes);
STANDIN_BOTH(cuMemcpyAsync, _ptsz, standin::DevicePointer to, standin::DevicePointer from,
             std::size_t bytes, standin::Stream stream);
STANDIN_BOTH(cuMemcpyHtoD_v2, _ptds, standin::DevicePointer to, const void *from,
             std::size_t bytes);
STANDIN_BOTH(cuMemcpyDtoH_v2, _ptds, void *to, standin::DevicePointer from, std::size_t bytes);
STANDIN_BOTH(cuMemcpyDtoD_v2, _ptds, standin::DevicePointer to, standin::DevicePointer from,
             std::size_t bytes);
STANDIN_BOTH(cuMemcpyHtoDAsync_v2, _ptsz, standin::DevicePointer to, const void *from,
             std::size_t bytes, standin::Stream stream);
STANDIN_BOTH(cuMemcpyDtoHAsync_v2, _ptsz, void *to, standin::DevicePointer from, std::size_t bytes,
             standin::Stream stream);
STANDIN_BOTH(cuMemcpyDtoDAsync_v2, _ptsz, standin::DevicePointer to, standin::DevicePointer from,
             std::size_t bytes, standin::Stream stream);
STANDIN_BOTH(cuMemcpy2D_v2, _ptds, const standin::DriverCopy2D *copy);
STANDIN_BOTH(cuMemcpy2DUnaligned_v2, _ptds, const standin::DriverCopy2D *copy);
STANDIN_BOTH(cuMemcpy2DAsync_v2, _ptsz, const standin::DriverCopy2D *copy, standin::Stream stream);
STANDIN_BOTH(cuMemcpy3D_v2, _ptds, const standin::DriverCopy3D *copy);
STANDIN_BOTH(cuMemcpy3DAsync_v2, _ptsz, const standin::DriverCopy3D *copy, standin::Stream stream);
STANDIN_BOTH(cuMemcpyPeer, _ptds, standin::DevicePointer to, standin::Context to_context,
             standin::DevicePointer from, standin::Context from_context, std::size_t bytes);
STANDIN_BOTH(cuMemcpyPeerAsync, _ptsz, standin::DevicePointer to, standin::Context to_context,
             standin::DevicePointer from, standin::Context from_context, std::size_t bytes,
             standin::Stream stream);

STANDIN_BOTH(cuMemcpyBatchAsync, _ptsz, standin::DevicePointer *to, standin::DevicePointer *from,
             std::size_t *bytes, std::size_t count, standin::CopyAttributes *attributes,
             std::size_t *starts, std::size_t attribute_count, std::size_t *failed,
             standin::Stream stream);
STANDIN_BOTH(cuMemcpyBatchAsync_v2, _ptsz, standin::DevicePointer *to, standin::DevicePointer *from,
             std::size_t *bytes, std::size_t count, standin::CopyAttributes *attributes,
             std::size_t *starts, std::size_t attribute_count, standin::Stream stream);
STANDIN_BOTH(cuMemcpy3DBatchAsync, _ptsz, std::size_t count, standin::BatchedCopy3D *copies,
             std::size_t *failed, unsigned long long flags, standin::Stream stream);
STANDIN_BOTH(cuMemcpy3DBatchAsync_v2, _ptsz, std::size_t count, standin::BatchedCopy3D *copies,
             unsigned long long flags, standin::Stream stream);

STANDIN_BOTH(cuMemsetD8_v2, _ptds, standin::DevicePointer to, std::uint8_t value,
             std::size_t count);
STANDIN_BOTH(cuMemsetD16_v2, _ptds, standin::DevicePointer to, std::uint16_t value,
             std::size_t count);
STANDIN_BOTH(cuMemsetD32_v2, _ptds, standin::DevicePointer to, std::uint32_t value,
             std::size_t count);
STANDIN_BOTH(cuMemsetD2D8_v2, _ptds, standin::DevicePointer to, std::size_t pitch,
             std::uint8_t value, std::size_t width, std::size_t height);
STANDIN_BOTH(cuMemsetD2D16_v2, _ptds, standin::DevicePointer to, std::size_t pitch,
             std::uint16_t value, std::size_t width, std::size_t height);
STANDIN_BOTH(cuMemsetD2D32_v2, _ptds, standin::DevicePointer to, std::size_t pitch,
             std::uint32_t value, std::size_t width, std::size_t height);
STANDIN_BOTH(cuMemsetD8Async, _ptsz, standin::DevicePointer to, std::uint8_t value,
             std::size_t count, standin::Stream stream);
STANDIN_BOTH(cuMemsetD16Async, _ptsz, standin::DevicePointer to, std::uint16_t value,
             std::size_t count, standin::Stream stream);
STANDIN_BOTH(cuMemsetD32Async, _ptsz, standin::DevicePointer to, std::uint32_t value,
             std::size_t count, standin::Stream stream);
STANDIN_BOTH(cuMemsetD2D8Async, _ptsz, standin::DevicePointer to, std::size_t pitch,
             std::uint8_t value, std::size_t width, std::size_t height, standin::Stream stream);
STANDIN_BOTH(cuMemsetD2D16Async, _ptsz, standin::DevicePointer to, std::size_t pitch,
             std::uint16_t value, std::size_t width, std::size_t height, standin::Stream stream);
STANDIN_BOTH(cuMemsetD2D32Async, _ptsz, standin::DevicePointer to, std::size_t pitch,
             std::uint32_t value, std::size_t width, std::size_t height, standin::Stream stream);

// The stand-in takes any image, with every name in it but an empty one and those that begin with
// "missing".
int cuModuleLoadData(standin::Module *module, const void *image);
int cuModuleLoadDataEx(standin::Module *module, const void *image, unsigned count, int *options,
                       void **values);
int cuModuleLoadFatBinary(standin::Module *module, const void *image);
int cuModuleUnload(standin::Module module);
int cuModuleGetFunction(standin::DriverFunction *function, standin::Module module,
                        const char *name);
int cuLibraryLoadData(standin::Library *library, const void *code, int *jit_options,
                      void **jit_values, unsigned jit_count, int *options, void **values,
                      unsigned count);
int cuLibraryUnload(standin::Library library);
int cuLibraryGetKernel(standin::Kernel *kernel, standin::Library library, const char *name);
int cuKernelGetFunction(standin::DriverFunction *function, standin::Kernel kernel);
STANDIN_BOTH(cuLaunchKernel, _ptsz, standin::DriverFunction function, unsigned grid_x,
             unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
             unsigned shared_bytes, standin::Stream stream, void **arguments, void **extra);
STANDIN_BOTH(cuLaunchCooperativeKernel, _ptsz, standin::DriverFunction function, unsigned grid_x,
             unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
             unsigned shared_bytes, standin::Stream stream, void **arguments);
STANDIN_BOTH(cuLaunchKernelEx, _ptsz, const standin::DriverLaunchConfig *config,
             standin::DriverFunction function, void **arguments, void **extra);
}

#include "driver/cuda_graphs.h"
