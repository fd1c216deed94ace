#include "exporter/probes/cuda/memory/reconcile_schedule.h"

#include <utility>

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

// A multiple of the last read's CPU time. While records are being lost, the live allocations soon
// become wrong again; after the last loss, one read corrects them.
constexpr int pause = 20;
constexpr int pause_at_rest = 2;
constexpr nanoseconds rest = std::chrono::milliseconds(200);

}  // namespace

bool ReconcileSchedule::is_due(nanoseconds now, std::uint64_t lost, bool wanted) {
    if (std::exchange(lost_, lost) != lost) {
        changed_ = now;
    }
    if (reconciled_ == lost && !wanted) {
        return false;
    }
    const bool is_at_rest = reconciled_ != lost && now - changed_ >= rest;
    return now - read_ >= (is_at_rest || !reconciled_ ? pause_at_rest : pause) * cost_;
}

void ReconcileSchedule::read(nanoseconds now, nanoseconds cpu) {
    read_ = now;
    cost_ = cpu;
}

}  // namespace gpusnoop::probes
