// The part `pressure:` of the block `host:` of the configuration.
#pragma once

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct HostPressureConfig {
    bool enabled = true;
    bool operator==(const HostPressureConfig &) const = default;
};

void read_host_pressure(config::Section &host, config::Config &config);

}  // namespace gpusnoop::probes
