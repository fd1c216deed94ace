// The driver's functions, found at run time, as the real runtimes and many programs do it.

#pragma once

#include "driver/core.h"
#include "driver/cuda.h"

namespace standin {

struct DriverApi {
#define STANDIN_POINTER(name, ...) decltype(&::name) name;
    CUDA_DRIVER_FUNCTIONS(STANDIN_POINTER)
    STANDIN_OTHER_DRIVER_FUNCTIONS(STANDIN_POINTER)
#undef STANDIN_POINTER
    const Core *core;
};

// Opens libcuda.so.1 at the first call. Ends the program when there is none, or it is not the
// stand-in: a test must not go on without its truth.
const DriverApi &driver();

}  // namespace standin
