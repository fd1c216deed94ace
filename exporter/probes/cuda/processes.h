// The processes behind the records of the CUDA probe, from their first call until nothing of them
// is left on the page.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/memory/live_table.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

class CudaProcesses {
public:
    // `on_start` gives the parts of the probe their places in each new process.
    CudaProcesses(series::FamilySet &families, SeriesSettings settings,
                  const CudaCallbacks &callbacks, std::function<void(Process &)> on_start);

    // Of a process's start. False: no such record.
    bool on_record(std::span<const std::byte> bytes);
    // The process of a record. One whose own record is late or lost has no name.
    Process &of(const cuda_record &head);
    Process &of(const ProcessKey &key);

    // Those that run as far as we know, and are not in the kernel's table of processes any more.
    [[nodiscard]] std::vector<Process *> missing_in(const LiveTable &table) const;

    // Of all running processes; and of the node's GPUs.
    void add_gauges(series::FamilySet &gauges, std::span<const discovery::Gpu> gpus) const;

    [[nodiscard]] CudaProcessTable &table() { return table_; }
    [[nodiscard]] const CudaProcessTable &table() const { return table_; }

private:
    const CudaCallbacks &callbacks_;
    CudaProcessTable table_;
};

}  // namespace gpusnoop::probes
