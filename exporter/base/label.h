// What the labels of all families keep to.
#pragma once

#include <cstddef>

namespace gpusnoop {

// Of names of libraries, kernels and programs, which come from processes.
inline constexpr std::size_t max_label_bytes = 128;

}  // namespace gpusnoop
