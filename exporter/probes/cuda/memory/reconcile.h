// Makes the live allocations agree with the kernel's table of them, which is right even if records
// were lost.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/memory/accounting.h"
#include "exporter/probes/cuda/memory/live_table.h"
#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

class Reconciler {
public:
    Reconciler(MemoryAccounting &memory, const CudaProcessTable &processes,
               const CudaCallbacks &callbacks)
        : memory_(memory), processes_(processes), callbacks_(callbacks) {}

    // Every running process of the table must be known, and every process that has ended by the
    // table must have been ended.
    void reconcile(const LiveTable &table);

private:
    // The indexes of the table's entries, by process.
    using EntriesByProcess =
        std::unordered_map<ProcessKey, std::vector<std::size_t>, ProcessKeyHash>;

    [[nodiscard]] EntriesByProcess comparable_processes(const LiveTable &table);
    // Returns the entries that can be removed.
    std::vector<LiveEntry> sort_entries(const LiveTable &table, EntriesByProcess &by_process) const;
    void compare(Process &process, const LiveTable &table, const std::vector<std::size_t> &entries);
    void free_absent(Process &process, const LiveTable &table, const AllocationKeys &present);

    MemoryAccounting &memory_;
    const CudaProcessTable &processes_;
    const CudaCallbacks &callbacks_;
};

}  // namespace gpusnoop::probes
