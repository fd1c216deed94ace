// The outstanding allocations of the running processes: all of them for people and programs that
// look for a leak, and the overview for a person. And those of a process that has ended.
#pragma once

#include <vector>

#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/cuda_facts.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/process_allocations.h"

namespace gpusnoop::probes {

[[nodiscard]] std::vector<ProcessAllocations> memory_allocations(const CudaProcessTable &processes);

// The processes and call sites with the largest amounts.
[[nodiscard]] MemoryOverview memory_overview(const CudaProcessTable &processes);

// Its `ended` is set.
[[nodiscard]] GpuProcessEnd end_of(const Process &process);

}  // namespace gpusnoop::probes
