// Makes the live allocations agree with the kernel's table of them, which is right even if records
// were lost.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/memory/accounting.h"
#include "exporter/probes/cuda/memory/live_allocations.h"
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

// Decides when to read the kernel's table of live allocations, to make ours agree with it.
// Reading takes CPU time, so CPU time bounds how often it is done: the time in which other threads
// had the CPU does not count.
class ReconcileSchedule {
public:
    // `lost`: records of memory, up to now. `wanted`: the table is needed for another reason.
    [[nodiscard]] bool is_due(std::chrono::nanoseconds now, std::uint64_t lost, bool wanted);
    // The table was read, and took this CPU time.
    void read(std::chrono::nanoseconds now, std::chrono::nanoseconds cpu);
    // Our live allocations agree with it. `lost`: records lost before it was read.
    void reconciled(std::uint64_t lost) { reconciled_ = lost; }
    // They did so at least once.
    [[nodiscard]] bool has_reconciled() const { return reconciled_.has_value(); }

private:
    // Empty: no table has been read yet. It may be older than this exporter.
    std::optional<std::uint64_t> reconciled_;
    std::uint64_t lost_ = 0;  // at the last call, and when it last changed
    std::chrono::nanoseconds changed_{};
    std::chrono::nanoseconds read_{};
    std::chrono::nanoseconds cost_{};
};

}  // namespace gpusnoop::probes
