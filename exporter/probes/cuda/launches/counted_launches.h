// The kernel's table of launches that are only counted, read again and again.
#pragma once

#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/launches/launch_shape.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"

namespace gpusnoop::probes {

class CountedLaunchTable {
public:
    // `tables` must outlive it.
    explicit CountedLaunchTable(const CudaTables &tables);

    struct Entry {
        cuda_launch_key key;
        cuda_launch_count count;  // without those that an earlier exporter has shown
        bool is_last;             // its process had ended, so it counts no more
    };
    [[nodiscard]] std::vector<Entry> read(const CudaAggregator &aggregator);

    // Removes those of `entries` that are the last ones: they have been counted.
    void forget_last(const std::vector<Entry> &entries);

    // Whether an earlier exporter has left entries.
    [[nodiscard]] bool has_earlier() const { return !shown_earlier_.empty(); }

private:
    const CudaTables &tables_;
    // With pins: what an earlier exporter has shown. The programs count how many entries a process
    // has, so these stay.
    CountedLaunches shown_earlier_;
    // Entries of processes that are not known at the last reading: their records may be on the way.
    CountedLaunches unowned_;
};

}  // namespace gpusnoop::probes
