// The outstanding allocations of the running processes: all of them for people and programs that
// look for a leak, and the overview for a person. And those of a process that has ended.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/cuda/memory/held_memory.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/allocations/allocations_api.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

[[nodiscard]] std::vector<ProcessAllocations> memory_allocations(const CudaProcessTable &processes);

// The processes and call sites with the largest amounts, and the GPUs of the node with those that
// hold memory on them.
[[nodiscard]] MemoryOverview memory_overview(const CudaProcessTable &processes,
                                             std::span<const discovery::Gpu> node = {});

// Of the processes with the largest amounts.
[[nodiscard]] std::vector<ProcessSample> memory_samples(const CudaProcessTable &processes,
                                                        std::size_t most);

// Its `ended` is set.
[[nodiscard]] GpuProcessEnd end_of(const Process &process);

// The outstanding allocations of the running processes, and the most that they were, as gauges of
// the page.
// `sites`: how many call sites are shown of each process.
void add_memory_gauges(series::FamilySet &gauges, const CudaProcessTable &processes,
                       const MemoryOwners &owners, std::chrono::nanoseconds now,
                       std::uint32_t sites);

}  // namespace gpusnoop::probes
