// When the call of a record ended.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "bpf/cuda/cuda.h"

namespace gpusnoop::probes {

// On the kernel's monotonic clock.
inline std::chrono::nanoseconds ended_at(const cuda_record &head) {
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(std::min<std::uint64_t>(head.ended_ns, INT64_MAX)));
}

}  // namespace gpusnoop::probes
