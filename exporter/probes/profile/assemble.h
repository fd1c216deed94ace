// Makes a profile of what the tables have counted.
#pragma once

#include <cstddef>

#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/probes/profile/processes.h"
#include "exporter/probes/profile/profile.h"
#include "exporter/probes/profile/stacks.h"

namespace gpusnoop::probes {

struct ProfileNames {
    const ProfiledProcesses &processes;
    const ProfiledStacks &stacks;
    CudaFunctionName cuda_function;  // not null if a sample has a CUDA call
};

// Adds the wanted stacks to a profile, which has its type. The heaviest come first; from
// `max_bytes` of text on, it counts their samples only.
void add_stacks(Profile &profile, ProfileReading reading, const ProfileFilter &filter,
                std::size_t max_bytes, const ProfileNames &names);

}  // namespace gpusnoop::probes
