// Reads the description of the CUDA probe's processes from /proc.
#pragma once

#include "exporter/discovery/gpus/gpu_lookup.h"
#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

// Fills in all values that can be found for a process: its start time, names, container and GPUs.
void describe(Process &process, discovery::GpuLookup &gpus);

}  // namespace gpusnoop::probes
