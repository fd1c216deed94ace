// Which launches are seen to end: `cuda: {launches: {durations: sampled}}`.
#pragma once

#include <cstdint>
#include <string_view>

#include "exporter/ebpf/attach_modes.h"
#include "exporter/probes/cuda/settings.h"

namespace gpusnoop::probes {

struct LaunchSampling {
    // Of a thread's launches, each such one is seen to end. 0: all are.
    std::uint32_t every = 0;
    // Why all are, although the configuration asks for a part of them; empty if it does not.
    std::string_view obstacle;
};

// For programs that are attached by `mode`.
[[nodiscard]] LaunchSampling launch_sampling(const CudaConfig &config, ebpf::AttachMode mode);

}  // namespace gpusnoop::probes
