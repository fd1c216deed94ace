// Threads that do not leave or take a CPU during a profile.
#pragma once

#include <cstdint>
#include <set>

#include "exporter/base/work_limit.h"
#include "exporter/probes/frame/python/stacks.h"
#include "exporter/probes/profile/processes.h"
#include "exporter/probes/profile/profile.h"

namespace gpusnoop::probes {

// Adds the threads of these processes that were off the CPU before the profile began, and still
// are: nobody has seen where. `seen` has the threads that the profile has. Those that run Python
// have its functions, which are read now. Ends at the limit.
void add_motionless(Profile &profile, const ProfiledProcesses &processes,
                    const ProfileFilter &filter, const std::set<std::uint32_t> &seen,
                    PythonStacks &python, const WorkLimit &limit);

}  // namespace gpusnoop::probes
