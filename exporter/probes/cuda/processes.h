// The processes of the CUDA probe's records, from their first call until all their series are
// removed.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/memory/live_allocations.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

class CudaProcesses {
public:
    // `on_start` adds the states of the probe's parts to each new process.
    CudaProcesses(series::FamilySet &families, SeriesSettings settings,
                  const CudaCallbacks &callbacks, std::function<void(Process &)> on_start);

    // Applies the record of a process's start. False: not such a record.
    bool on_record(std::span<const std::byte> bytes);
    // The process of a record. It has no name if its own record is late or lost.
    Process &of(const cuda_record &head);
    Process &of(const ProcessKey &key);

    // The last program of the process; null: none is known.
    [[nodiscard]] const Process *running(std::uint32_t tgid) const;

    // Processes that run by our records, but are no longer in the kernel's table of processes.
    [[nodiscard]] std::vector<Process *> missing_in(const LiveTable &table) const;

    // Adds the gauges of all running processes, and of the node's GPUs.
    void add_gauges(series::FamilySet &gauges, std::span<const discovery::Gpu> gpus) const;

    [[nodiscard]] CudaProcessTable &table() { return table_; }
    [[nodiscard]] const CudaProcessTable &table() const { return table_; }

private:
    void note_call(Process &process, std::uint16_t function);

    const CudaCallbacks &callbacks_;
    CudaProcessTable table_;
};

}  // namespace gpusnoop::probes
