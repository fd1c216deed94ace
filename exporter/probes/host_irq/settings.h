// The part `irq:` of the block `host:` of the configuration.
#pragma once

#include <string_view>

namespace gpusnoop::probes {

struct HostIrqConfig {
    static constexpr std::string_view part = "irq";
    bool enabled = false;
    bool operator==(const HostIrqConfig &) const = default;
};

}  // namespace gpusnoop::probes
