// What is sampled of a process every few seconds, for its past on the page at /.
#pragma once

#include <cstdint>

#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

struct ProcessSample {
    ProcessKey key;
    std::uint64_t bytes = 0;
    std::uint64_t launches = 0;
};

}  // namespace gpusnoop::probes
