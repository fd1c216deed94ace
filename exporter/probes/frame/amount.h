// How much memory, in how many allocations.
#pragma once

#include <cstdint>

namespace gpusnoop::probes {

struct Amount {
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;

    bool operator==(const Amount &) const = default;
};

}  // namespace gpusnoop::probes
