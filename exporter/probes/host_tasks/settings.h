// The part `tasks:` of the block `host:` of the configuration.
#pragma once

#include <string_view>

namespace gpusnoop::probes {

struct HostTasksConfig {
    static constexpr std::string_view part = "tasks";
    bool enabled = true;
    bool operator==(const HostTasksConfig &) const = default;
};

}  // namespace gpusnoop::probes
