// Counts the stacks of followed processes, for `gpusnoop_exporter profile`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/target_processes.h"
#include "exporter/probes/profile/profile.h"

namespace gpusnoop::probes {

struct ProfileSettings {
    ProfileType type = ProfileType::cpu;
    std::uint32_t frequency = 49;  // of cpu, samples a second of each CPU
    // Only these processes and what they start; both empty: all that are followed.
    std::vector<std::uint32_t> pids;
    std::string comm;  // a glob
};

// A probe that keeps no families. For one thread.
class Profiler {
public:
    virtual ~Profiler() = default;

    // The stacks since start(), which ends now. Once.
    [[nodiscard]] virtual Result<Profile> take() = 0;
};

// Both are one object; the profiler lives as long as the probe.
struct ProfilerAndProbe {
    std::unique_ptr<Probe> probe;
    Profiler *profiler;
};
ProfilerAndProbe make_profiler(const config::Config &config, const TargetProcessesPtr &targets,
                               ProfileSettings settings);

}  // namespace gpusnoop::probes
