// The part `kvm:` of the block `host:` of the configuration.
#pragma once

#include <string_view>

namespace gpusnoop::probes {

struct HostKvmConfig {
    static constexpr std::string_view part = "kvm";
    bool enabled = false;
    bool operator==(const HostKvmConfig &) const = default;
};

}  // namespace gpusnoop::probes
