// What it would cost a process that its launches are seen to their end.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>

namespace gpusnoop::probes {

// Whether the process's launches are to be counted where they enter the driver, which costs two
// fifths of it. Looks back at one second, and changes at once where they would cost too much.
class LaunchMeter {
public:
    static constexpr std::chrono::nanoseconds window = std::chrono::seconds(1);
    // Of one CPU.
    static constexpr double too_much = 0.01;
    static constexpr double little = 0.007;

    // `launches`: what the process has made by `now`.
    LaunchMeter(std::chrono::nanoseconds now, std::uint64_t launches)
        : counted_since_(now), last_(launches) {
        past_.emplace_back(now, 0);
    }

    // `launches`: what it has made until `now`. `cost`: of one that is seen to its end. True: they
    // are to be counted from now on.
    bool note(std::chrono::nanoseconds now, std::uint64_t launches, std::chrono::nanoseconds cost) {
        sum_ += static_cast<double>(launches - last_) * static_cast<double>(cost.count());
        last_ = launches;
        past_.emplace_back(now, sum_);
        while (past_.size() > 2 && now - past_[1].first >= window) {
            past_.pop_front();
        }
        // It may have taken longer to exchange links.
        const auto time = std::max(window, now - past_.front().first);
        const double share = (sum_ - past_.front().second) / static_cast<double>(time.count());
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
    std::uint64_t last_;
    double sum_ = 0;  // nanoseconds, if all were seen to their end
    std::deque<std::pair<std::chrono::nanoseconds, double>> past_;
};

}  // namespace gpusnoop::probes
