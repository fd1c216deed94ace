// The part `tasks:` of the block `host:` of the configuration.
#pragma once

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct HostTasksConfig {
    bool enabled = true;
    bool operator==(const HostTasksConfig &) const = default;
};

void read_host_tasks(config::Section &host, config::Config &config);

}  // namespace gpusnoop::probes
