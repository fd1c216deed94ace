// The part `life:` of the block `host:` of the configuration.
#pragma once

#include <cstdint>

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct HostLifeConfig {
    bool enabled = true;
    std::uint32_t keep = 100;  // ends that /api/v1/exits shows
    bool operator==(const HostLifeConfig &) const = default;
};

void read_host_life(config::Section &host, config::Config &config);

}  // namespace gpusnoop::probes
