// Makes a profile of what the tables have counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

#include "exporter/base/work_limit.h"
#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/probes/frame/python/stacks.h"
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

// Adds the threads of these processes that were off the CPU before the profile began, and still
// are: nobody has seen where. `seen` has the threads that the profile has. Those that run Python
// have its functions, which are read now. Ends at the limit.
void add_motionless(Profile &profile, const ProfiledProcesses &processes,
                    const ProfileFilter &filter, const std::set<std::uint32_t> &seen,
                    PythonStacks &python, const WorkLimit &limit);

}  // namespace gpusnoop::probes
