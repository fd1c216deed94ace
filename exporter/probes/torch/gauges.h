// The memory that tensors hold now, of the running processes: as gauges of the page, and for the
// API.
#pragma once

#include <cstddef>

#include "exporter/probes/frame/allocations/allocations_api.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct TorchProcess;

// `sites`: how many call sites are shown of each process.
void add_torch_gauges(series::FamilySet &gauges, const ProcessTable<TorchProcess> &processes,
                      std::size_t sites, bool is_sampling);

[[nodiscard]] ProcessAllocations torch_allocations_of(const TorchProcess &process,
                                                      bool is_sampling);

}  // namespace gpusnoop::probes
