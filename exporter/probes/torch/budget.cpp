#include "exporter/probes/torch/budget.h"

#include <algorithm>

#include "exporter/probes/frame/bpf/overhead_limits.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

bool TorchBudget::allows(nanoseconds now, nanoseconds cost) {
    const nanoseconds saved = looked_ ? share_of(now - *looked_) : nanoseconds(0);
    const nanoseconds spent = MaxOverhead::true_cost * std::max(cost - cost_, nanoseconds(0));
    left_ = std::min(left_ + saved, share_of(window)) - spent;
    looked_ = now;
    cost_ = std::max(cost, cost_);
    return left_ > nanoseconds(0);
}

}  // namespace gpusnoop::probes
