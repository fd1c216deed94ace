// The part `memory:` of the block `host:` of the configuration.
#pragma once

#include <string_view>

namespace gpusnoop::probes {

struct HostMemoryConfig {
    static constexpr std::string_view part = "memory";
    bool enabled = true;
    bool operator==(const HostMemoryConfig &) const = default;
};

}  // namespace gpusnoop::probes
