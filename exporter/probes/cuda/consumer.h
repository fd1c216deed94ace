// Passes the records of the CUDA probe's programs, and the kernel's tables, to the aggregator in
// the right order. On the aggregating thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/attach/programs.h"
#include "exporter/probes/cuda/launches/counted_launches.h"
#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"
#include "exporter/probes/cuda/memory/live_allocations.h"
#include "exporter/probes/cuda/memory/reconcile.h"
#include "exporter/probes/frame/allocations/call_sites.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/python/sites.h"
#include "exporter/probes/frame/python/tables.h"

namespace gpusnoop::probes {

// Finds names for kernels and call sites, on request of the CUDA aggregator.
class CudaNames {
public:
    static Result<CudaNames> start(PythonTables python);

    void remember(const symbols::Executable &executable) { kernels_->remember(executable); }
    void ask_for_kernel(symbols::CudaKernelRequest request, const CudaTables &tables);
    void ask_for_site(std::uint64_t ticket, const ProcessKey &process, std::uint64_t code_start,
                      const Site &site, const CudaTables &tables);
    [[nodiscard]] PythonSites &sites() { return sites_; }
    void hand_answers_to(CudaAggregator &aggregator);

private:
    CudaNames(std::unique_ptr<symbols::CudaKernelResolver> kernels, PythonSites sites)
        : kernels_(std::move(kernels)), sites_(std::move(sites)) {}

    std::unique_ptr<symbols::CudaKernelResolver> kernels_;
    PythonSites sites_;
};

// The three rings of the CUDA probe's programs.
class CudaRings {
public:
    // The aggregator gets their records.
    static Result<CudaRings> open(const CudaPrograms &programs, CudaAggregator &aggregator);

    // The ends of the rings at a moment: all events after them are younger, except for records out
    // of order.
    struct Mark {
        std::chrono::nanoseconds at;
        std::uint64_t lifecycle;
        std::uint64_t allocations;
        std::uint64_t calls;
    };
    [[nodiscard]] Mark mark(std::chrono::nanoseconds now) const;
    // A thread that loses the CPU while it writes a record holds back all later records.
    [[nodiscard]] bool is_passed(const Mark &mark) const;

    // Drains in this order: the names of launched kernels are read before the launches, and each
    // process before its calls.
    void drain_to(const Mark &mark);
    // The starts and ends of processes.
    void drain_lifecycle() { lifecycle_->drain_to(lifecycle_->produced()); }
    [[nodiscard]] std::vector<int> fds() const {
        return {lifecycle_->fd(), allocations_->fd(), calls_->fd()};
    }

private:
    using RingPtr = std::unique_ptr<ebpf::Ring>;
    CudaRings(RingPtr lifecycle, RingPtr allocations, RingPtr calls)
        : lifecycle_(std::move(lifecycle)),
          allocations_(std::move(allocations)),
          calls_(std::move(calls)) {}

    RingPtr lifecycle_, allocations_, calls_;
};

class CudaConsumer {
public:
    // Both must outlive it.
    static Result<std::unique_ptr<CudaConsumer>> start(const CudaPrograms &programs,
                                                       CudaAggregator &aggregator,
                                                       std::chrono::nanoseconds rescan_interval);

    void drain();
    [[nodiscard]] std::vector<int> ring_fds() const { return rings_.fds(); }
    // Launches that the kernel's table has counted.
    void read_launches();

    // For the aggregator's callbacks.
    [[nodiscard]] CudaRings &rings() { return rings_; }
    [[nodiscard]] CudaNames &names() { return names_; }
    [[nodiscard]] const CudaTables &tables() const { return tables_; }

private:
    CudaConsumer(const CudaPrograms &programs, CudaAggregator &aggregator,
                 std::chrono::nanoseconds rescan_interval, CudaNames names, CudaRings rings);

    void drain_rings(const CudaRings::Mark &end);
    void read_table_if_due();
    void read_table(std::chrono::nanoseconds began, std::uint64_t lost);
    void reconcile();
    void rescan(std::chrono::nanoseconds now);

    const CudaPrograms &programs_;
    CudaAggregator &aggregator_;
    std::chrono::nanoseconds rescan_interval_;
    CudaNames names_;
    CudaTables tables_;
    CountedLaunchTable launches_;  // one of them
    CudaRings rings_;
    ReconcileSchedule schedule_;
    // Events up to here are applied once the rings are drained to here.
    std::optional<CudaRings::Mark> unapplied_;
    // The table of live allocations. It is compared when all older records are drained.
    struct Reading {
        LiveTable table;
        CudaRings::Mark since;
        std::uint64_t lost;
    };
    std::optional<Reading> reading_;
    // When each was last done.
    std::chrono::nanoseconds read_launches_{};
    std::chrono::nanoseconds looked_for_losses_{};
    std::chrono::nanoseconds tidied_{};
    std::chrono::nanoseconds rescanned_{};
};

}  // namespace gpusnoop::probes
