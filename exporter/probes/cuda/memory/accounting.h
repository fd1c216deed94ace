// Keeps the live allocations of each process, from the records of allocations and frees in the
// order in which they happened.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/memory/call_sites.h"
#include "exporter/probes/cuda/memory/counters.h"
#include "exporter/probes/cuda/memory/held_memory.h"
#include "exporter/probes/cuda/memory/live_allocations.h"
#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

class MemoryAccounting {
public:
    // Allocations from before `started` were counted by an earlier exporter.
    MemoryAccounting(series::FamilySet &families, const CudaProcessTable &processes,
                     const CudaCallbacks &callbacks, std::chrono::nanoseconds started);

    void started(Process &process);
    // Its `ended` is set. `is_incomplete`: records of its memory may be missing, so its allocations
    // are counted only when a younger table has been read.
    void ended(Process &process, bool is_incomplete);
    // For once a second. Owners of memory are forgotten so long after their last process.
    void tidy(std::chrono::nanoseconds now, std::chrono::nanoseconds retention);
    // The process, which has ended, can be forgotten.
    [[nodiscard]] static bool is_done_with(const Process &process);

    void apply(Process &process, const cuda_allocation_record &record);
    void apply(Process &process, const cuda_mapping_record &record);
    void apply(Process &process, const cuda_reset_record &record);
    // A call that allocates came from there, and failed: the site's name will be needed.
    void use_site(Process &process, const Site &site) { sites_.used(process, site); }
    void on_site_name(symbols::StackReply answer) { sites_.on_name(std::move(answer)); }

    [[nodiscard]] static bool is_on_device(const Process &process, std::uint64_t address);

    // The kernel's table of live allocations is about to be read. What ends meanwhile is remembered
    // until it is reconciled: the table may have it from before.
    void watch_ends() { watched_.emplace(); }
    // The next table is needed.
    [[nodiscard]] bool wants_reconciling() const { return wants_reconciling_; }
    void want_reconciling(bool wanted = true) { wants_reconciling_ = wants_reconciling_ || wanted; }
    // The table was read. Later requests need another one.
    void stop_wanting() { wants_reconciling_ = false; }

    // The stacks of Python's functions that live allocations have.
    [[nodiscard]] std::set<std::uint64_t> python_stacks() const;
    // The containers and Slurm steps whose processes have allocated.
    [[nodiscard]] const MemoryOwners &owners() const { return owners_; }

    // Notes that were lost for lack of room: the live allocations of a process may be wrong.
    [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }

    // For reconciling with the table.
    //
    // Was its context reset or destroyed since?
    [[nodiscard]] static bool was_reset(const Process &process, const Allocation &allocation);
    // Records of its memory were lost: it may have held more than it was seen to.
    static void note_losses(Process &process);
    // The table has it; its record was lost, or is still to come.
    void add_from_table(Process &process, const LiveAllocations::Key &key,
                        const Allocation &allocation);
    void map_from_table(Process &process, std::uint64_t address,
                        const LiveAllocations::Mapping &mapping);
    void free(Process &process, const LiveAllocations::Key &key, const Allocation &allocation,
              std::chrono::nanoseconds at);
    // Removes entries of the process from the table.
    void forget_in_table(Process &process, std::span<const LiveEntry> entries);
    // Counts the allocations of the process, which has ended, as unfreed and forgets them.
    void count_unfreed(Process &process);
    void stop_watching_ends() { watched_.reset(); }

private:
    struct EndedKey {
        ProcessKey process;
        LiveAllocations::Key key;
        auto operator<=>(const EndedKey &) const = default;
    };
    struct Ends {
        std::set<EndedKey> frees;
        std::set<EndedKey> mappings;
    };

    bool add(Process &process, std::uint64_t address, const Allocation &allocation,
             std::chrono::nanoseconds at);
    void apply_free(Process &process, const cuda_allocation_record &record);
    void apply_free_of_unknown(Process &process, const cuda_allocation_record &record);
    void drop_from_table(Process &process);

    const CudaProcessTable &processes_;
    const CudaCallbacks &callbacks_;
    std::chrono::nanoseconds started_;
    std::chrono::nanoseconds now_;  // of the last tidy(), or the start
    std::chrono::nanoseconds looked_for_idle_{};
    std::shared_ptr<std::pmr::memory_resource> nodes_;
    MemoryCounters counters_;
    CallSites sites_;
    MemoryOwners owners_;
    std::optional<Ends> watched_;
    bool wants_reconciling_ = false;
    std::uint64_t forgotten_ = 0;
};

}  // namespace gpusnoop::probes
