// The block `profile:` of the configuration: profiles of a running exporter, as a document.
#pragma once

#include <chrono>
#include <cstdint>

#include "exporter/config/config.h"

namespace gpusnoop::probes {

struct ProfileConfig {
    bool enabled = true;
    std::chrono::milliseconds max_duration = std::chrono::minutes(5);
    std::uint32_t max_stacks = 4096;  // different ones
    // Of a profile of the CPU that is taken all the time, in Hz; 0: there is none.
    std::uint32_t continuous_frequency = 0;
    std::chrono::milliseconds keep = std::chrono::minutes(10);  // so much of it can be asked for
    bool operator==(const ProfileConfig &) const = default;
};

void read_profile(config::Section profile, config::Config &config);

}  // namespace gpusnoop::probes
