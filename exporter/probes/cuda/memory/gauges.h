// The outstanding allocations of the running processes, as gauges of the page.
#pragma once

#include <chrono>
#include <cstdint>

#include "exporter/probes/cuda/process.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// `sites`: how many call sites are shown of each process.
void add_memory_gauges(series::FamilySet &gauges, const CudaProcessTable &processes,
                       std::chrono::nanoseconds now, std::uint32_t sites);

}  // namespace gpusnoop::probes
