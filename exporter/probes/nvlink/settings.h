// The block `nvlink:` of the configuration.
#pragma once

#include <cstdint>

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct NvlinkConfig {
    bool enabled = true;
    std::uint32_t ring_bytes = 1U << 20U;  // a power of two
    bool operator==(const NvlinkConfig &) const = default;
};

void read_nvlink(config::Section nvlink, config::Config &config);

}  // namespace gpusnoop::probes
