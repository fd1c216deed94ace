// The outstanding allocations of the running processes: all of them for people and programs that
// look for a leak, and the overview for a person.
#pragma once

#include <vector>

#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/process_allocations.h"

namespace gpusnoop::probes {

[[nodiscard]] std::vector<ProcessAllocations> memory_allocations(const CudaProcessTable &processes);

// The processes and call sites with the largest amounts.
[[nodiscard]] MemoryOverview memory_overview(const CudaProcessTable &processes);

}  // namespace gpusnoop::probes
