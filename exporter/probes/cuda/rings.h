// The three rings of the CUDA probe's programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "exporter/base/result.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/cuda/aggregator.h"
#include "exporter/probes/cuda/attach/programs.h"

namespace gpusnoop::probes {

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

private:
    using RingPtr = std::unique_ptr<ebpf::Ring>;
    CudaRings(RingPtr lifecycle, RingPtr allocations, RingPtr calls)
        : lifecycle_(std::move(lifecycle)),
          allocations_(std::move(allocations)),
          calls_(std::move(calls)) {}

    RingPtr lifecycle_, allocations_, calls_;
};

}  // namespace gpusnoop::probes
