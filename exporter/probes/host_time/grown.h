// Numbers that only grow, read again and again.
#pragma once

#include <cstdint>

namespace gpusnoop::probes {

// What `now` is more than `before`; 0 if it is less, as it may be of a thread that ends meanwhile.
[[nodiscard]] inline std::uint64_t difference(std::uint64_t now, std::uint64_t before) {
    return now > before ? now - before : 0;
}

// Adds what a number has grown by to `counted`, and returns it.
[[nodiscard]] inline std::uint64_t grown(std::uint64_t now, std::uint64_t &counted) {
    const std::uint64_t added = difference(now, counted);
    counted += added;
    return added;
}

}  // namespace gpusnoop::probes
