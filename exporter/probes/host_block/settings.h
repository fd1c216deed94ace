// The part `block:` of the block `host:` of the configuration.
#pragma once

#include <string_view>

namespace gpusnoop::probes {

struct HostBlockConfig {
    static constexpr std::string_view part = "block";
    bool enabled = false;
    bool operator==(const HostBlockConfig &) const = default;
};

}  // namespace gpusnoop::probes
