// The functions that the stand-in libraries count, by name: those of bpf/cuda/functions.h, and
// those that a program needs around them, which no probe traces.

#pragma once

#include "bpf/cuda/functions.h"

#define STANDIN_OTHER_RUNTIME_FUNCTIONS(X) \
    X(__cudaPushCallConfiguration)         \
    X(__cudaPopCallConfiguration)          \
    X(cudaStreamCreate)                    \
    X(cudaStreamCreateWithFlags)           \
    X(cudaStreamDestroy)                   \
    X(cudaEventCreate)                     \
    X(cudaEventRecord)                     \
    X(cudaEventDestroy)                    \
    X(cudaGraphCreate)                     \
    X(cudaGraphInstantiate)                \
    X(cudaGraphExecDestroy)                \
    X(cudaGraphDestroy)                    \
    X(cudaDeviceGetDefaultMemPool)         \
    X(cudaGetDeviceCount)                  \
    X(cudaGetDevice)                       \
    X(cudaMemGetInfo)                      \
    X(cudaRuntimeGetVersion)               \
    X(cudaDriverGetVersion)                \
    X(cudaGetLastError)                    \
    X(cudaPeekAtLastError)                 \
    X(cudaGetErrorString)                  \
    X(cudaGetErrorName)

#define STANDIN_OTHER_DRIVER_FUNCTIONS(X) \
    X(cuInit)                             \
    X(cuDriverGetVersion)                 \
    X(cuDeviceGetCount)                   \
    X(cuDeviceGet)                        \
    X(cuDeviceGetDefaultMemPool)          \
    X(cuDevicePrimaryCtxRelease_v2)       \
    X(cuCtxGetCurrent)                    \
    X(cuCtxGetDevice)                     \
    X(cuStreamCreate)                     \
    X(cuStreamDestroy_v2)                 \
    X(cuEventCreate)                      \
    X(cuEventRecord)                      \
    X(cuEventDestroy_v2)                  \
    X(cuMemGetInfo_v2)                    \
    X(cuMemAddressReserve)                \
    X(cuMemAddressFree)                   \
    X(cuMemSetAccess)                     \
    X(cuMemPoolCreate)                    \
    X(cuMemPoolDestroy)                   \
    X(cuModuleLoadData)                   \
    X(cuModuleUnload)                     \
    X(cuLibraryLoadData)                  \
    X(cuLibraryUnload)                    \
    X(cuGraphCreate)                      \
    X(cuGraphInstantiateWithFlags)        \
    X(cuGraphExecDestroy)                 \
    X(cuGraphDestroy)                     \
    X(cuGetErrorName)                     \
    X(cuGetProcAddress_v2)
