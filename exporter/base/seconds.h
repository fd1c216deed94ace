// Nanoseconds, in which everything is measured, as the seconds of pages and documents.
#pragma once

#include <chrono>
#include <cstdint>

namespace gpusnoop {

constexpr double nanoseconds_per_second = 1e9;

[[nodiscard]] constexpr double in_seconds(std::uint64_t ns) {
    return static_cast<double>(ns) / nanoseconds_per_second;
}

[[nodiscard]] constexpr double in_seconds(std::chrono::nanoseconds duration) {
    return static_cast<double>(duration.count()) / nanoseconds_per_second;
}

}  // namespace gpusnoop
