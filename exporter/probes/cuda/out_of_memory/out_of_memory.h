// Finds the calls that were refused GPU memory and did not get it after all, and keeps what was
// true at that moment.
//
// The kernel sends each failed call, and tells when its thread has got the memory since
// (bpf/cuda/refusals.bpf.h): a refusal that is not repaired within a second is final. PyTorch's own
// refusals, if the probe `torch` is on, are final at once. Refusals of one process on one GPU that
// follow each other are one event with a count. verdict.h says who is to blame.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "bpf/cuda/cuda.h"
#include "exporter/base/rate_limit.h"
#include "exporter/discovery/gpus/gpus.h"
#include "exporter/probes/cuda/out_of_memory/report.h"
#include "exporter/probes/cuda/out_of_memory/verdict.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/frame/torch_refusals.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

class CudaOutOfMemory {
public:
    struct Callbacks {
        // The refused call came from there: its name will be needed.
        std::function<void(Process &, const Site &)> use_site;
        // Once for each event.
        std::function<void(const OutOfMemory &)> on_event = [](const auto &) {};
    };
    CudaOutOfMemory(series::FamilySet &families, const CudaProcessTable &processes,
                    const std::vector<discovery::Gpu> &gpus, Callbacks callbacks);

    static void started(Process &process);

    // In the order of events, after those of memory from before.
    void apply(Process &process, const cuda_failed_record &record);
    void apply(Process &process, const cuda_repaired_record &record);
    void apply(Process &process, const cuda_free_memory_record &record);
    void on_torch(Process &process, const TorchRefusal &refusal);
    // What is free has changed, if it is much: figures from before are outdated.
    static void memory_changed(Process &process, const cuda_allocation_record &record) {
        constexpr std::uint64_t much = std::uint64_t{32} << 20U;
        const bool is_unknown = record.head.type == CUDA_RECORD_FREE && record.bytes == 0;
        if (!MEMORY_IS_HOST(record.kind) && (record.bytes >= much || is_unknown)) {
            note_change(process, record.head);
        }
    }
    static void memory_changed(Process &process, const cuda_reset_record &record) {
        note_change(process, record.head);
    }
    static void memory_changed(Process & /*process*/, const cuda_mapping_record & /*record*/) {}

    // All events until then have been applied.
    void settle(std::chrono::nanoseconds until);

    // For once a second: notes what processes hold, for their growth.
    void tidy(std::chrono::nanoseconds now);
    // The process, which has ended, can be forgotten.
    [[nodiscard]] static bool is_done_with(const Process &process);

    [[nodiscard]] const OutOfMemoryHistory &history() const { return history_; }

private:
    struct State;
    struct Pending;

    [[nodiscard]] static std::uint64_t held_on(const Process &process, std::int32_t device);
    static void note_change(Process &process, const cuda_record &head);
    void refused(Process &process, const cuda_failed_record &record);
    Pending &pending_of(Process &process, std::uint32_t tid, std::uint64_t at_ns);
    [[nodiscard]] bool may_look(Process &process, std::uint64_t at_ns);
    // `at_all`: not only at what is cheap to find out.
    void look(const Process &process, Pending &pending, bool at_all);
    void look_at_others(const Process &asker, OutOfMemory &event, std::uint64_t at_ns) const;
    [[nodiscard]] bool others_changed(const Process &asker, const OutOfMemory &event,
                                      std::uint64_t since_ns) const;
    void finish(Process &process, const Pending &pending);

    series::Family &family_;
    const CudaProcessTable &processes_;
    std::set<std::string> divided_;  // the labels of GPUs with instances
    Callbacks callbacks_;
    OutOfMemoryHistory history_;
    RateLimit looks_;  // each one visits all processes
    std::size_t pending_ = 0;
};

}  // namespace gpusnoop::probes
