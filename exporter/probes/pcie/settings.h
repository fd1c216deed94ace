// The block `pcie:` of the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct PcieConfig {
    bool enabled = true;
    // The prefix of a device's class, as in /sys, in lower case; "" is every device.
    std::vector<std::string> classes = {"0x03", "0x0680"};
    std::uint32_t ring_bytes = 1U << 20U;  // a power of two
    bool operator==(const PcieConfig &) const = default;
};

void read_pcie(config::Section pcie, config::Config &config);

}  // namespace gpusnoop::probes
