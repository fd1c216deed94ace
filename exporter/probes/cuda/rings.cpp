#include "exporter/probes/cuda/rings.h"

namespace gpusnoop::probes {

Result<CudaRings> CudaRings::open(const CudaPrograms &programs, CudaAggregator &aggregator) {
    const auto take_allocations = [&aggregator](auto bytes) {
        aggregator.on_allocations_record(bytes);
    };
    auto lifecycle = ebpf::Ring::open(programs.lifecycle_ring(), take_allocations);
    auto allocations = ebpf::Ring::open(programs.allocations_ring(), take_allocations);
    auto calls = ebpf::Ring::open(programs.calls_ring(),
                                  [&aggregator](auto bytes) { aggregator.on_calls_record(bytes); });
    for (const auto *const ring : {&lifecycle, &allocations, &calls}) {
        if (!*ring) {
            return tl::unexpected(ring->error());
        }
    }
    return CudaRings(std::move(*lifecycle), std::move(*allocations), std::move(*calls));
}

CudaRings::Mark CudaRings::mark(std::chrono::nanoseconds now) const {
    // Reads the ends in the opposite order of draining: the records that a call's record needs were
    // written before it.
    const std::uint64_t calls_end = calls_->produced();
    const std::uint64_t allocations_end = allocations_->produced();
    return {now, lifecycle_->produced(), allocations_end, calls_end};
}

bool CudaRings::is_passed(const Mark &mark) const {
    return lifecycle_->consumed() >= mark.lifecycle &&
           allocations_->consumed() >= mark.allocations && calls_->consumed() >= mark.calls;
}

void CudaRings::drain_to(const Mark &mark) {
    lifecycle_->drain_to(mark.lifecycle);
    allocations_->drain_to(mark.allocations);
    calls_->drain_to(mark.calls);
}

}  // namespace gpusnoop::probes
