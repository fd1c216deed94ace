// The part `pressure:` of the block `host:` of the configuration.
#pragma once

#include <string_view>

namespace gpusnoop::probes {

struct HostPressureConfig {
    static constexpr std::string_view part = "pressure";
    bool enabled = true;
    bool operator==(const HostPressureConfig &) const = default;
};

}  // namespace gpusnoop::probes
