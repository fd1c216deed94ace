// The part of the CUDA runtime's C interface that the stand-in offers, declared without CUDA's
// headers, and what it adds for tests. The ABI is the real one: an enum travels as an int, and a
// Dim3 by value takes two registers.

#pragma once

#include <cstddef>
#include <cstdint>

namespace standin {

struct Dim3 {
    std::uint32_t x = 1;
    std::uint32_t y = 1;
    std::uint32_t z = 1;
};
static_assert(sizeof(Dim3) == 12);

enum Error : int {
    kSuccess = 0,
    kInvalidValue = 1,
    kMemoryAllocation = 2,
    kInvalidConfiguration = 9,
    kInvalidMemcpyDirection = 21,
    kMissingConfiguration = 52,
    kInvalidDeviceFunction = 98,
    kInvalidDevice = 101,
    kInvalidResourceHandle = 400,
};

// cudaMemcpyKind
enum CopyDirection : int {
    kHostToHost = 0,
    kHostToDevice = 1,
    kDeviceToHost = 2,
    kDeviceToDevice = 3,
    kDefault = 4,
};

using Stream = void *;
using Event = void *;
using Kernel = void *;  // cudaKernel_t
using Hook = void (*)(const char *function, void *context);

}  // namespace standin

// The names are CUDA's, reserved or not.
extern "C" {
int cudaMalloc(void **pointer, std::size_t bytes);
int cudaMallocManaged(void **pointer, std::size_t bytes, unsigned flags);
int cudaMallocHost(void **pointer, std::size_t bytes);
int cudaHostAlloc(void **pointer, std::size_t bytes, unsigned flags);
int cudaMallocAsync(void **pointer, std::size_t bytes, standin::Stream stream);
int cudaFree(void *pointer);
int cudaFreeHost(void *pointer);
int cudaFreeAsync(void *pointer, standin::Stream stream);
int cudaMemGetInfo(std::size_t *free_bytes, std::size_t *total_bytes);

int cudaMemcpy(void *to, const void *from, std::size_t bytes, int direction);
int cudaMemcpy_ptds(void *to, const void *from, std::size_t bytes, int direction);
int cudaMemcpyAsync(void *to, const void *from, std::size_t bytes, int direction,
                    standin::Stream stream);
int cudaMemcpyAsync_ptsz(void *to, const void *from, std::size_t bytes, int direction,
                         standin::Stream stream);

int cudaLaunchKernel(const void *function, standin::Dim3 grid, standin::Dim3 block,
                     void **arguments, std::size_t shared_bytes, standin::Stream stream);
int cudaLaunchKernel_ptsz(const void *function, standin::Dim3 grid, standin::Dim3 block,
                          void **arguments, std::size_t shared_bytes, standin::Stream stream);
int __cudaLaunchKernel(standin::Kernel kernel, standin::Dim3 grid, standin::Dim3 block,
                       void **arguments, std::size_t shared_bytes, standin::Stream stream);
int __cudaLaunchKernel_ptsz(standin::Kernel kernel, standin::Dim3 grid, standin::Dim3 block,
                            void **arguments, std::size_t shared_bytes, standin::Stream stream);
int __cudaGetKernel(standin::Kernel *kernel, const void *host_stub);
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
int cudaStreamCreate(standin::Stream *stream);
int cudaStreamCreateWithFlags(standin::Stream *stream, unsigned flags);
int cudaStreamSynchronize(standin::Stream stream);
int cudaStreamDestroy(standin::Stream stream);
int cudaEventCreate(standin::Event *event);
int cudaEventRecord(standin::Event event, standin::Stream stream);
int cudaEventSynchronize(standin::Event event);
int cudaEventElapsedTime(float *milliseconds, standin::Event start, standin::Event end);
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

// Called in the middle of every call, nested or not, that allocates, frees, copies or launches:
// the arguments are checked, nothing is done or counted yet, no lock is held. The hook may leave
// the call in any way. One hook for the whole process; set it while no other thread makes calls.
void standin_set_hook(standin::Hook hook, void *context);

// Says that the calling thread has no open call any more, because it left them with longjmp.
void standin_reset_depth();
}
