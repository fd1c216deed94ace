// Names of CUPTI's error codes.
#pragma once

#include <string_view>

namespace gpusnoop::probes {

// The enumerator of CUptiResult with this value ("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
// for 39), as cuptiGetResultString() gives it; empty for a number that CUDA 13.0 does not define.
[[nodiscard]] std::string_view cupti_error_name(int code);

}  // namespace gpusnoop::probes
