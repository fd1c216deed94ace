// What the probes may cost a process: `cuda: {max_overhead: 3%}`.
#pragma once

#include <chrono>
#include <cstdint>

#include "exporter/probes/frame/bpf/overhead_limits.h"

namespace gpusnoop::probes {

// A share of the process's time, of which it can save up what `window` brings. While something is
// left, all its launches are seen. When all is used up, none are seen until enough is saved for a
// turn. So a process that costs less is seen all the time, and any other costs its share on
// average.
class CostBudget {
public:
    static constexpr std::chrono::seconds window{10};
    static constexpr std::chrono::seconds turn{1};
    // After so long, there is a turn all the same: what else is traced may use up the whole budget.
    static constexpr std::chrono::seconds longest_pause{30};

    // `percent` of one CPU. `cost` is what the process had cost at `now`.
    CostBudget(std::uint32_t percent, std::chrono::nanoseconds now, std::chrono::nanoseconds cost);

    // `cost` is what the process has cost until `now`, and `times` how many times that it loses.
    // True: its launches are to be seen from now on.
    bool note(std::chrono::nanoseconds now, std::chrono::nanoseconds cost,
              double times = MaxOverhead::true_cost);

    // It has used its budget up, and has not saved all of it again since.
    [[nodiscard]] bool is_in_turns() const { return in_turns_; }
    // The share of a CPU, in percent, that counted when that began.
    [[nodiscard]] double percent_at_begin() const { return percent_at_begin_; }

private:
    [[nodiscard]] std::chrono::nanoseconds share_of(std::chrono::nanoseconds time) const {
        return time * percent_ / 100;
    }
    void pause(std::chrono::nanoseconds spent, std::chrono::nanoseconds elapsed);

    std::int64_t percent_;
    std::chrono::nanoseconds noted_at_;
    std::chrono::nanoseconds noted_cost_;
    std::chrono::nanoseconds left_;
    bool is_seen_ = true;
    bool in_turns_ = false;
    double percent_at_begin_ = 0;
    std::chrono::nanoseconds paused_at_{};
    std::chrono::nanoseconds seen_until_{};  // at least, in a turn that was not saved for
    std::chrono::nanoseconds turn_costs_{};  // what is to be saved in a pause
};

}  // namespace gpusnoop::probes
