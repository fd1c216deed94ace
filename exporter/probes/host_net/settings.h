// The part `net:` of the block `host:` of the configuration.
#pragma once

#include <chrono>
#include <cstdint>

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct HostNetConfig {
    bool enabled = true;
    // How often the sockets of followed processes are read.
    std::chrono::milliseconds look_interval = std::chrono::seconds(10);
    std::uint32_t max_sockets = 65'536;  // that are kept for /api/v1/connections
    bool operator==(const HostNetConfig &) const = default;
};

void read_host_net(config::Section &host, config::Config &config);

}  // namespace gpusnoop::probes
