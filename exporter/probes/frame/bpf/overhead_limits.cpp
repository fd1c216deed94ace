#include "exporter/probes/frame/bpf/overhead_limits.h"

#include <algorithm>

#include "exporter/processes/proc.h"

namespace gpusnoop::probes {

void OverheadShare::has_run(std::chrono::nanoseconds time) {
    run_ns = std::max(run_ns, static_cast<std::uint64_t>(time.count()));
    is_limited = true;
}

std::uint64_t OverheadShare::take(std::uint64_t more_ns) {
    if (is_limited) {
        more_ns = std::min(more_ns, run_ns - std::min(run_ns, shown_ns));
    }
    shown_ns += more_ns;
    return more_ns;
}

OverheadSharePtr OverheadLimits::share_of(std::uint32_t tgid, std::chrono::nanoseconds started) {
    if (started == std::chrono::nanoseconds::zero()) {
        return std::make_shared<OverheadShare>();
    }
    if (shares_.size() >= tidy_at_) {
        std::erase_if(shares_, [](const auto &share) { return share.second.expired(); });
        tidy_at_ = shares_.size() + most_forgotten;
    }
    // One probe may know it from the kernel's record, to the nanosecond, and another from /proc.
    std::weak_ptr<OverheadShare> &known =
        shares_[{tgid, started - started % processes::clock_tick()}];
    auto share = known.lock();
    if (share == nullptr) {
        share = std::make_shared<OverheadShare>();
        known = share;
    }
    return share;
}

}  // namespace gpusnoop::probes
