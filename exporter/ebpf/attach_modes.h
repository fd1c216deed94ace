// In which ways a probe tries to attach.
#pragma once

#include <vector>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"

namespace gpusnoop::probes {

// The one that the configuration names, or those that work on this machine, best first.
std::vector<ebpf::AttachMode> attach_modes(config::Config::Cuda::Attach wanted,
                                           const ebpf::Features &features);

}  // namespace gpusnoop::probes
