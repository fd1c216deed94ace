// Names of the CUDA runtime's error codes.
#pragma once

#include <string_view>

namespace gpusnoop::probes {

// The enumerator of cudaError_t with this value ("cudaErrorMemoryAllocation" for 2, "cudaSuccess"
// for 0), as cudaGetErrorName() gives it; empty for a number that CUDA 13.0 does not define.
// CUresult, the driver API's code, has other names for the same numbers.
[[nodiscard]] std::string_view cuda_error_name(int code);

}  // namespace gpusnoop::probes
