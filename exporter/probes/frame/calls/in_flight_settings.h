// The block `in_flight:` of the configuration. The probes that follow calls read it, too.
#pragma once

#include <chrono>

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct InFlightConfig {
    bool enabled = true;
    std::chrono::milliseconds min_age = std::chrono::seconds(1);  // of the calls that are shown
    bool operator==(const InFlightConfig &) const = default;

    // Calls in flight for so long when their thread ends are reported; 0: none.
    [[nodiscard]] std::chrono::milliseconds unreturned_after() const {
        return enabled ? min_age : std::chrono::milliseconds(0);
    }
};

void read_in_flight(config::Section in_flight, config::Config &config);

}  // namespace gpusnoop::probes
