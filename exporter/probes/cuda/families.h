// The metric families of the CUDA probe.
#pragma once

#include "exporter/series/family.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// Every family begins with the process's labels: comm, container, and pid where it is asked for.
// The gauges are filled anew for each report; the others live as long as the probe.
struct CudaFamilies {
    series::Family &allocations;
    series::Family &allocated_bytes;
    series::Family &frees;
    series::Family &freed_bytes;
    series::Family &unknown_frees;
    series::Family &unfreed_bytes;
    series::Family &unfreed_allocations;
    series::Family &copies;
    series::Family &copied_bytes;
    series::Family &copy_seconds;
    series::Family &copy_bandwidth;
    series::Family &copy_size;
    series::Family &copy_duration;
    series::Family &sets;
    series::Family &set_bytes;
    series::Family &launches;
    series::Family &graph_launches;
    series::Family &launch_duration;
    series::Family &launch_threads;
    series::Family &errors;
};

CudaFamilies make_cuda_families(series::FamilySet &set);

// Gauges of what is now, of each process (these always have the label pid).
struct CudaGauges {
    series::Family &outstanding_bytes;
    series::Family &outstanding_allocations;
    series::Family &aged_bytes;
    series::Family &site_bytes;
    series::Family &copies_in_flight;
    series::Family &process_info;
    series::Family &gpu_info;  // of the node: without the process's labels
};

CudaGauges make_cuda_gauges(series::FamilySet &set);

}  // namespace gpusnoop::probes
