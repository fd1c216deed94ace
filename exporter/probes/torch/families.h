// The metric families of the probe `torch`.
#pragma once

#include "exporter/series/family.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct TorchFamilies {
    series::Family &allocations, &allocation_bytes, &frees, &free_bytes, &untracked_frees,
        &out_of_memory, &overhead;
};

TorchFamilies make_torch_families(series::FamilySet &set);

// Gauges of the present state of each process, always with the label pid. They are made and filled
// for each page.
struct TorchGauges {
    series::Family &allocated, &reserved, &peak, &outstanding_bytes, &outstanding_allocations,
        &site_bytes, &site_error_bytes, &sample_bytes;
};

TorchGauges make_torch_gauges(series::FamilySet &set);

}  // namespace gpusnoop::probes
