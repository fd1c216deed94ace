// A limit that applies to the labels of all families.
#pragma once

#include <cstddef>

namespace gpusnoop {

// For names of libraries, kernels and programs, which come from processes.
inline constexpr std::size_t max_label_bytes = 128;

}  // namespace gpusnoop
