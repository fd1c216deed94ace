// The outstanding allocations of the running processes, and the most that they were, as gauges of
// the page.
#pragma once

#include <chrono>
#include <cstdint>

#include "exporter/probes/cuda/memory/memory_owners.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// `sites`: how many call sites are shown of each process.
void add_memory_gauges(series::FamilySet &gauges, const CudaProcessTable &processes,
                       const MemoryOwners &owners, std::chrono::nanoseconds now,
                       std::uint32_t sites);

}  // namespace gpusnoop::probes
