// Counts the program's calls of operator new, once this is linked into it.
#pragma once

#include <cstdint>

namespace gpusnoop::bench {

struct Allocations {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
};

// By all threads, since the start.
Allocations allocations();

}  // namespace gpusnoop::bench
