#include "exporter/probes/cuda/governor/cost_budget.h"

#include <algorithm>
#include <cmath>

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

CostBudget::CostBudget(std::uint32_t percent, nanoseconds now, nanoseconds cost)
    : percent_(percent), noted_at_(now), noted_cost_(cost), left_(share_of(window)) {}

bool CostBudget::note(nanoseconds now, nanoseconds cost, double times) {
    if (now <= noted_at_) {
        return is_seen_;
    }
    const nanoseconds elapsed = now - noted_at_;
    const nanoseconds spent(std::llround(
        times * static_cast<double>(std::max<std::int64_t>((cost - noted_cost_).count(), 0))));
    noted_at_ = now;
    noted_cost_ = cost;
    left_ =
        std::clamp(left_ + share_of(elapsed) - spent, -share_of(longest_pause), share_of(window));
    if (is_seen_) {
        if (left_ <= nanoseconds(0)) {
            if (now < seen_until_) {
                return true;
            }
            pause(spent, elapsed);
        } else if (left_ == share_of(window)) {
            in_turns_ = false;
        }
    } else if (left_ >= turn_costs_) {
        is_seen_ = true;
    } else if (now - paused_at_ >= longest_pause) {
        is_seen_ = true;
        seen_until_ = now + turn;
    }
    return is_seen_;
}

void CostBudget::pause(nanoseconds spent, nanoseconds elapsed) {
    const double share = static_cast<double>(spent.count()) / static_cast<double>(elapsed.count());
    if (!in_turns_) {
        percent_at_begin_ = 100 * share;
    }
    is_seen_ = false;
    in_turns_ = true;
    paused_at_ = noted_at_;
    const auto costs =
        std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(turn) * share);
    turn_costs_ = std::min(costs, share_of(window));
}

}  // namespace gpusnoop::probes
