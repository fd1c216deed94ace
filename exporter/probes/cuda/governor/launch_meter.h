// What it costs a process that its launches are seen to their end.
#pragma once

#include <chrono>
#include <deque>
#include <utility>

namespace gpusnoop::probes {

// Whether the process's launches are to be counted where they enter the driver, which costs two
// fifths of it. Looks back at one second, and changes at once where they cost too much.
class LaunchMeter {
public:
    static constexpr std::chrono::nanoseconds window = std::chrono::seconds(1);
    // Of one CPU.
    static constexpr double too_much = 0.01;
    static constexpr double little = 0.007;

    // `cost` is what the process has cost at `now`.
    LaunchMeter(std::chrono::nanoseconds now, std::chrono::nanoseconds cost)
        : counted_since_(now), last_(cost) {
        past_.emplace_back(now, 0);
    }

    // `cost` is what it has cost until `now`; `cost_of_ends` what a launch costs that is seen to
    // its end, over one that is counted. True: they are to be counted from now on.
    bool note(std::chrono::nanoseconds now, std::chrono::nanoseconds cost, double cost_of_ends) {
        const auto spent = static_cast<double>((cost - last_).count());
        last_ = cost;
        sum_ += is_counted_ ? spent * cost_of_ends : spent;
        past_.emplace_back(now, sum_);
        while (past_.size() > 2 && now - past_[1].first >= window) {
            past_.pop_front();
        }
        const double share = (sum_ - past_.front().second) / static_cast<double>(window.count());
        if (!is_counted_ && share > too_much) {
            is_counted_ = true;
            counted_since_ = now;
        } else if (is_counted_ && share < little && now - counted_since_ >= window) {
            is_counted_ = false;
        }
        return is_counted_;
    }

private:
    bool is_counted_ = false;
    std::chrono::nanoseconds counted_since_;
    std::chrono::nanoseconds last_;
    double sum_ = 0;  // nanoseconds, as if all were seen to their end
    std::deque<std::pair<std::chrono::nanoseconds, double>> past_;
};

}  // namespace gpusnoop::probes
