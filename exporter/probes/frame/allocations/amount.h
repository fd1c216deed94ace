// An amount of memory, and the number of its allocations.
#pragma once

#include <cstdint>

namespace gpusnoop::probes {

struct Amount {
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;

    bool operator==(const Amount &) const = default;
};

}  // namespace gpusnoop::probes
