// The part `memory:` of the block `host:` of the configuration.
#pragma once

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct HostMemoryConfig {
    bool enabled = true;
    bool operator==(const HostMemoryConfig &) const = default;
};

void read_host_memory(config::Section &host, config::Config &config);

}  // namespace gpusnoop::probes
