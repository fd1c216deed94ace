// The names of CUDA's and CUPTI's error codes.
#pragma once

#include <string_view>

namespace gpusnoop::probes {

// The enumerator of cudaError_t with this value ("cudaErrorMemoryAllocation" for 2, "cudaSuccess"
// for 0), as cudaGetErrorName() gives it; empty for a number that CUDA 13.0 does not define.
[[nodiscard]] std::string_view cuda_error_name(int code);

// The enumerator of CUresult with this value ("CUDA_ERROR_OUT_OF_MEMORY" for 2, "CUDA_SUCCESS" for
// 0), as cuGetErrorName() gives it; empty for a number that CUDA 13.0 does not define. The function
// that returned a code determines its enumeration: most numbers are in both.
[[nodiscard]] std::string_view cuda_driver_error_name(int code);

// The enumerator of CUptiResult with this value ("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
// for 39), as cuptiGetResultString() gives it; empty for a number that CUDA 13.0 does not define.
[[nodiscard]] std::string_view cupti_error_name(int code);

}  // namespace gpusnoop::probes
