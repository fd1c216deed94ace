#include "exporter/probes/cuda/governor/cost_budget.h"

#include <algorithm>

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

CostBudget::CostBudget(std::uint32_t percent, nanoseconds now, nanoseconds cost)
    : percent_(percent), noted_at_(now), noted_cost_(cost), left_(share_of(window)) {}

bool CostBudget::note(nanoseconds now, nanoseconds cost) {
    const nanoseconds elapsed = std::max(now - noted_at_, nanoseconds(1));
    const nanoseconds spent = std::max(cost - noted_cost_, nanoseconds(0)) * true_cost;
    noted_at_ = now;
    noted_cost_ = cost;
    left_ = std::min(left_ + share_of(elapsed) - spent, share_of(window));
    if (is_seen_) {
        if (left_ <= nanoseconds(0)) {
            pause(spent, elapsed);
        } else if (left_ == share_of(window)) {
            in_turns_ = false;
        }
    } else if (left_ >= turn_costs_ || now - paused_at_ >= longest_pause) {
        is_seen_ = true;
    }
    return is_seen_;
}

void CostBudget::pause(nanoseconds spent, nanoseconds elapsed) {
    const double share = static_cast<double>(spent.count()) / static_cast<double>(elapsed.count());
    if (!in_turns_) {
        percent_at_begin_ = 100 * share / true_cost;
    }
    is_seen_ = false;
    in_turns_ = true;
    paused_at_ = noted_at_;
    const auto costs =
        std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(turn) * share);
    turn_costs_ = std::min(costs, share_of(window));
}

}  // namespace gpusnoop::probes
