// The functions that the stand-in libraries count, by name: those of bpf/cuda/functions.h, and
// those that a program needs around them, which no probe traces.

#pragma once

#include "bpf/cuda/functions.h"
#include "graph_functions.h"

#define STANDIN_OTHER_RUNTIME_FUNCTIONS(X) \
    STANDIN_GRAPH_RUNTIME_FUNCTIONS(X)     \
    X(__cudaPushCallConfiguration)         \
    X(__cudaPopCallConfiguration)          \
    X(cudaEventCreate)                     \
    X(cudaEventDestroy)                    \
    X(cudaGetDeviceCount)                  \
    X(cudaGetDevice)                       \
    X(cudaRuntimeGetVersion)               \
    X(cudaDriverGetVersion)                \
    X(cudaGetLastError)                    \
    X(cudaPeekAtLastError)                 \
    X(cudaGetErrorString)                  \
    X(cudaGetErrorName)

#define STANDIN_OTHER_DRIVER_FUNCTIONS(X) \
    STANDIN_GRAPH_DRIVER_FUNCTIONS(X)     \
    X(cuInit)                             \
    X(cuDriverGetVersion)                 \
    X(cuDeviceGetCount)                   \
    X(cuDeviceGet)                        \
    X(cuDevicePrimaryCtxRelease_v2)       \
    X(cuCtxGetCurrent)                    \
    X(cuCtxGetDevice)                     \
    X(cuEventCreate)                      \
    X(cuEventDestroy_v2)                  \
    X(cuMemAddressReserve)                \
    X(cuMemAddressFree)                   \
    X(cuMemSetAccess)                     \
    X(cuGetErrorName)                     \
    X(cuGetProcAddress_v2)
