// What /proc says of the processes of the CUDA probe.
#pragma once

#include "exporter/discovery/gpus/gpu_lookup.h"
#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

// Fills in what can be found out of a process: when it started, its names, container and GPUs.
void describe(Process &process, discovery::GpuLookup &gpus);

}  // namespace gpusnoop::probes
