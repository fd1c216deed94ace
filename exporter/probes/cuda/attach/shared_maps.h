// Shares the maps of the CUDA probe's programs with other probes.
#pragma once

#include "exporter/base/result.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/frame/processes/cuda_shared.h"

struct cuda_bpf;

namespace gpusnoop::probes {

// The table of GPU processes; that of followed ones and the calls of threads, if the configuration
// says `follow`; and the accounts of threads, if it says `keep_times`.
Result<> share_maps(const cuda_bpf &skeleton, const CudaConfig &config, CudaShared &shared);

}  // namespace gpusnoop::probes
