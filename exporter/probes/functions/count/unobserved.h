// What passes between the aggregator and the limit for what named functions cost.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// The calls of one number in a running process since the last time.
struct CallsOfFunction {
    ProcessKey process;
    std::uint32_t number = 0;
    std::uint64_t calls = 0;
};

// How long a function of a file was paused since the last time.
struct UnobservedFunction {
    std::string library;
    std::string name;
    std::chrono::nanoseconds time{};
};

}  // namespace gpusnoop::probes
