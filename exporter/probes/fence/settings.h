// The block `fence:` of the configuration.
#pragma once

#include <cstdint>

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct FenceConfig {
    bool enabled = true;
    std::uint32_t max_fences = 131'072;    // followed at one time
    std::uint32_t ring_bytes = 1U << 20U;  // a power of two
    bool operator==(const FenceConfig &) const = default;
};

void read_fence(config::Section fence, config::Config &config);

}  // namespace gpusnoop::probes
