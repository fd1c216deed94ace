// CUDA records -> counters, histograms and live allocations. No BPF here: records in, families out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/cuda/callbacks.h"
#include "exporter/probes/cuda/events/events.h"
#include "exporter/probes/cuda/memory/held_memory.h"
#include "exporter/probes/cuda/memory/reconcile.h"
#include "exporter/probes/cuda/memory/summary.h"
#include "exporter/probes/cuda/parts.h"
#include "exporter/probes/cuda/processes.h"
#include "exporter/probes/frame/bpf/overhead.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/torch_refusals.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct CudaSettings {
    series::Budget budget = [](std::string_view) { return 2000U; };
    bool pid_label = false;
    bool script_label = true;
    bool stream_label = false;
    std::chrono::nanoseconds retention = std::chrono::minutes(10);
    std::vector<discovery::Gpu> gpus = {};  // of the node
    std::uint32_t sites = 10;               // call sites shown of each process
    // allocations from before this were counted by an earlier exporter
    std::chrono::nanoseconds started{};
};

// Decodes each record, finds its process, and passes it to the part that counts it; passes data
// between the parts.
//
// Records of the rings come in any relative order; apply_until() restores the order where it
// matters. Times are the kernel's monotonic clock.
class CudaAggregator {
public:
    CudaAggregator(CudaSettings settings, CudaCallbacks callbacks);
    // The parts refer to members of this object.
    CudaAggregator(const CudaAggregator &) = delete;
    CudaAggregator &operator=(const CudaAggregator &) = delete;

    // For the rings of allocations and of processes.
    void on_allocations_record(std::span<const std::byte> bytes) {
        undecodable_ += take_allocations_record(bytes) ? 0 : 1;
    }
    void on_calls_record(std::span<const std::byte> bytes) {
        undecodable_ += take_calls_record(bytes) ? 0 : 1;
    }
    // An entry of the kernel's table of counted launches. False: its process is not known.
    bool on_counted_launches(const cuda_launch_key &key, const cuda_launch_count &count);
    [[nodiscard]] bool has_ended(const ProcessKey &key) const {
        const Process *const process = processes_.table().find(key);
        return process == nullptr || process->ended;
    }
    [[nodiscard]] bool knows(const ProcessKey &key) const {
        return processes_.table().find(key) != nullptr;
    }
    // Whether a process has ended since the last call of take_ended().
    [[nodiscard]] bool any_ended() const { return any_ended_; }
    bool take_ended() { return std::exchange(any_ended_, false); }
    void on_kernel_name(const symbols::CudaKernelReply &answer) {
        parts_.launches.on_kernel_name(answer);
    }
    void on_site_name(symbols::StackReply answer) { parts_.memory.on_site_name(std::move(answer)); }

    // All rings have been drained up to `until`: everything that ended by then is known, so it can
    // be applied in the order in which it happened.
    void apply_until(std::chrono::nanoseconds until);

    // Makes the live allocations agree with the kernel's table of them, after records of them were
    // lost, or when the table is older than this exporter. After the table is read, drain the rings
    // and call apply_until() before this; call watch_ends() before the table is read.
    void watch_ends() { parts_.memory.watch_ends(); }
    void reconcile(const LiveTable &table);
    // The table may have entries of an ended process.
    [[nodiscard]] bool wants_reconciling() const { return parts_.memory.wants_reconciling(); }

    // Forgets ended processes and their data after the retention. For about once a second.
    void tidy(std::chrono::nanoseconds now);

    // Ends the processes whose end was not recorded. For each rescan interval.
    void scan(std::chrono::nanoseconds now);
    void assume_ended(const ProcessKey &key, std::chrono::nanoseconds now);
    // The processes that have not ended, and when they started.
    [[nodiscard]] std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> running() const {
        return processes_.table().running();
    }

    // The stacks of Python's functions that live allocations have.
    [[nodiscard]] std::set<std::uint64_t> python_stacks() const {
        return parts_.memory.python_stacks();
    }

    // Asks for each running process whether all its calls were seen.
    void look_for_missed_calls();

    [[nodiscard]] std::vector<series::FamilySnapshot> report(std::chrono::nanoseconds now);
    // The allocations of each running process, by call site.
    [[nodiscard]] std::vector<ProcessAllocations> allocations() const {
        return memory_allocations(processes_.table());
    }
    // The label `gpu` of a device of a running process; nothing: it is not known.
    [[nodiscard]] std::optional<std::string> gpu_name(std::uint32_t tgid,
                                                      std::int32_t device) const {
        const Process *const process = processes_.running(tgid);
        return process == nullptr ? std::nullopt
                                  : std::optional(gpu_of(*process, device_of(*process, device)));
    }
    [[nodiscard]] MemoryOverview overview() const {
        return memory_overview(processes_.table(), settings_.gpus);
    }
    [[nodiscard]] std::vector<ProcessSample> samples(std::size_t most) const {
        return memory_samples(processes_.table(), most);
    }
    // A call in flight.
    [[nodiscard]] OpenCall open_call(const open_call_record &record);
    // The calls that threads were inside of when they ended, since the last time.
    [[nodiscard]] std::vector<UnreturnedCall> take_unreturned() {
        return std::exchange(unreturned_, {});
    }
    // Label sets folded so far, by family.
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const;
    // PyTorch's allocator of a running process has refused memory.
    void on_torch(const TorchRefusal &refusal);
    [[nodiscard]] const OutOfMemoryHistory &out_of_memory() const {
        return parts_.out_of_memory.history();
    }
    // What the processes of a container or a Slurm step held. Nothing: none has allocated lately.
    [[nodiscard]] std::optional<HeldMemory> held_by(const JobOwner &owner,
                                                    std::chrono::nanoseconds until) const {
        return parts_.memory.owners().held_by(owner, until);
    }
    // Records of an unknown type or of the wrong size.
    [[nodiscard]] std::uint64_t undecodable() const { return undecodable_; }
    // Data of a process's memory that was forgotten for lack of room.
    [[nodiscard]] std::uint64_t forgotten() const { return parts_.memory.forgotten(); }

private:
    // False: not a record of the ring.
    bool take_allocations_record(std::span<const std::byte> bytes);
    bool take_calls_record(std::span<const std::byte> bytes);
    bool count_call(std::span<const std::byte> bytes);
    bool take_copy(std::span<const std::byte> bytes);
    bool take_batch(std::span<const std::byte> bytes);
    bool take_failed(std::span<const std::byte> bytes);
    bool take_change(std::span<const std::byte> bytes);
    bool take_unreturned_call(std::span<const std::byte> bytes);
    template <typename Record>
    bool keep(std::span<const std::byte> bytes);
    template <typename Part, typename Record>
    bool hand_to(Part &part, void (Part::*take)(Process &, const Record &),
                 std::span<const std::byte> bytes);

    template <typename Record>
    void apply(const Record &record) {
        Process &process = processes_.of(record.head);
        parts_.memory.apply(process, record);
        CudaOutOfMemory::memory_changed(process, record);
    }
    void apply(const cuda_copy_record &record);
    void apply(const cuda_change_record &record);
    void apply(const cuda_graph_record &record);
    void apply(const cuda_exit_record &record);
    void apply(const cuda_failed_record &record) {
        parts_.out_of_memory.apply(processes_.of(record.head), record);
    }
    void apply(const cuda_repaired_record &record) {
        parts_.out_of_memory.apply(processes_.of(record.head), record);
    }
    void apply(const cuda_free_memory_record &record) {
        parts_.out_of_memory.apply(processes_.of(record.head), record);
    }
    void leave_out_earlier_cost(Process &process, std::uint64_t cost_ns);
    void end(Process &process, std::chrono::nanoseconds at, bool is_incomplete);
    void hand_over_totals(std::chrono::nanoseconds now);

    CudaSettings settings_;
    CudaCallbacks callbacks_;
    series::FamilySet families_;
    CudaProcesses processes_;
    CudaParts parts_;
    Overhead overhead_;
    Reconciler reconciler_;
    PendingEvents pending_;
    series::PageFamilies page_families_;
    std::vector<UnreturnedCall> unreturned_;
    std::uint64_t undecodable_ = 0;
    bool any_ended_ = false;
};

}  // namespace gpusnoop::probes
