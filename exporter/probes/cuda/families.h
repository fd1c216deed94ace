// The metric families of the CUDA probe, as its parts use them.
#pragma once

#include <cstdint>

#include "exporter/series/family.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// Every family begins with the process's labels (series::process_labels). The families live as long
// as the probe.
struct MemoryFamilies {
    series::Family &allocations;
    series::Family &allocated_bytes;
    series::Family &frees;
    series::Family &freed_bytes;
    series::Family &untracked_frees;
    series::Family &unfreed_bytes;
    series::Family &unfreed_allocations;
};

struct CopyFamilies {
    series::Family &copies;
    series::Family &bytes;
    series::Family &seconds;
    series::Family &bandwidth;
    series::Family &size;
    series::Family &duration;
    series::Family &sets;
    series::Family &set_bytes;
};

struct LaunchFamilies {
    series::Family &launches;
    series::Family &launch_duration;
    series::Family &launch_threads;
    series::Family &unobserved;
    series::Family &unobserved_launches;
    series::Family &unobserved_bounds;
};

struct GraphFamilies {
    series::Family &launches;
    series::Family &captured;
};

struct EventFamilies {
    series::Family &elapsed;
    series::Family &invalid;
};

struct ErrorFamilies {
    series::Family &errors;
};

MemoryFamilies make_memory_families(series::FamilySet &set);
CopyFamilies make_copy_families(series::FamilySet &set);
LaunchFamilies make_launch_families(series::FamilySet &set);
GraphFamilies make_graph_families(series::FamilySet &set);
EventFamilies make_event_families(series::FamilySet &set);
ErrorFamilies make_error_families(series::FamilySet &set);
series::Family &make_out_of_memory_family(series::FamilySet &set);
series::Family &make_idle_family(series::FamilySet &set);
// All of these, in the order of the page.
void make_cuda_families(series::FamilySet &set);

// Gauges of the present state of each process, always with the label pid. They are made and filled
// for each page.
struct MemoryGauges {
    series::Family &outstanding_bytes;
    series::Family &outstanding_allocations;
    series::Family &peak_bytes;
    series::Family &owner_peak_bytes;  // of several processes: no process labels
    series::Family &aged_bytes;
    series::Family &site_bytes;
};

struct CopyGauges {
    series::Family &in_flight;
};

struct ProcessGauges {
    series::Family &process_info;
    series::Family &gpu_info;   // of the node: no process labels
    series::Family &slurm_gpu;  // of a job
};

MemoryGauges make_memory_gauges(series::FamilySet &set);
CopyGauges make_copy_gauges(series::FamilySet &set, bool by_stream);
// Of the process, with its bounds: in thousandths.
series::Family &make_loss_gauge(series::FamilySet &set);
ProcessGauges make_process_gauges(series::FamilySet &set);
void make_cuda_gauges(series::FamilySet &set);

// The value of label sets that are folded together is their sum.
inline void add_gauge(series::Family &family, const series::LabelValues &values,
                      std::uint64_t value) {
    family.add(family.slot(1, values), value);
}
// It is the highest of them.
inline void raise_gauge(series::Family &family, const series::LabelValues &values,
                        std::uint64_t value) {
    const series::Slot slot = family.slot(1, values);
    if (value > family.value(slot)) {
        family.set(slot, value);
    }
}

}  // namespace gpusnoop::probes
