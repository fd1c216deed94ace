// What /proc says of the processes of the CUDA probe.
#pragma once

#include <chrono>
#include <vector>

#include "exporter/discovery/gpu_lookup.h"
#include "exporter/probes/cuda_aggregator.h"

namespace gpusnoop::probes {

// Fills in what can be found out of a process: when it started, its names, container and GPUs.
void describe(Process &process, discovery::GpuLookup &gpus);

// The net below the exit records, should one be lost. What is gone at one look is taken for ended
// only at the next, when all its records have been seen.
class EndedProcesses {
public:
    void look(CudaAggregator &aggregator, std::chrono::nanoseconds now);

private:
    std::vector<ProcessKey> gone_;  // at the last look
};

}  // namespace gpusnoop::probes
