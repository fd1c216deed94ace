// What counts the records of the CUDA probe.
#pragma once

#include <chrono>
#include <vector>

#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/copies/copies.h"
#include "exporter/probes/cuda/errors.h"
#include "exporter/probes/cuda/events/events.h"
#include "exporter/probes/cuda/graphs/graphs.h"
#include "exporter/probes/cuda/idle/idle_held.h"
#include "exporter/probes/cuda/launches/launches.h"
#include "exporter/probes/cuda/memory/accounting.h"
#include "exporter/probes/cuda/out_of_memory/out_of_memory.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/cuda/processes.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// The parts that count, in the order in which their families are on the page. They do not know each
// other.
struct CudaParts {
    // Allocations from before `started` were counted by an earlier exporter. References must
    // outlive it.
    CudaParts(series::FamilySet &families, CudaProcesses &processes,
              const std::vector<discovery::Gpu> &gpus, std::chrono::nanoseconds started,
              const CudaCallbacks &callbacks);
    CudaParts(const CudaParts &) = delete;
    CudaParts &operator=(const CudaParts &) = delete;

    void started(Process &process);
    // Before processes are forgotten.
    void tidy(std::chrono::nanoseconds now, std::chrono::nanoseconds retention);
    // Whether all of an ended process is counted.
    [[nodiscard]] static bool are_done_with(const Process &process);

    MemoryAccounting memory;
    CudaCopies copies;
    CudaLaunches launches;
    CudaGraphs graphs;
    CudaEvents events;
    CudaErrors errors;
    CudaOutOfMemory out_of_memory;
    CudaIdleHeld idle;
};

}  // namespace gpusnoop::probes
