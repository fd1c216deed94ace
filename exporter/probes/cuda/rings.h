// The three rings of the CUDA probe's programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "exporter/base/result.h"
#include "exporter/ebpf/ring.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/programs.h"

namespace gpusnoop::probes {

class CudaRings {
public:
    // The aggregator gets their records.
    static Result<CudaRings> open(const CudaPrograms &programs, CudaAggregator &aggregator);

    // Where the rings end at a moment: behind that, all events are younger, as far as they are in
    // order.
    struct Mark {
        std::chrono::nanoseconds at;
        std::uint64_t lifecycle;
        std::uint64_t allocations;
        std::uint64_t calls;
    };
    [[nodiscard]] Mark mark(std::chrono::nanoseconds now) const;
    // A thread that has no CPU time while it writes a record holds back what is behind it.
    [[nodiscard]] bool is_passed(const Mark &mark) const;

    // In this order: the names of what is launched are then among the allocations, and each process
    // is known before what it does.
    void drain_to(const Mark &mark);
    // The starts and ends of processes.
    void drain_lifecycle() { lifecycle_->drain_to(lifecycle_->produced()); }

private:
    using RingPtr = std::unique_ptr<ebpf::Ring>;
    CudaRings(RingPtr lifecycle, RingPtr allocations, RingPtr calls)
        : lifecycle_(std::move(lifecycle)),
          allocations_(std::move(allocations)),
          calls_(std::move(calls)) {}

    RingPtr lifecycle_, allocations_, calls_;
};

}  // namespace gpusnoop::probes
