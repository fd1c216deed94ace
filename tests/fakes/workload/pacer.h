// Keeps a thread's calls to the rate that all threads together may have.

#pragma once

#include "workload/options.h"

#include <chrono>
#include <thread>

namespace demo {

class Pacer {
public:
    explicit Pacer(const Options &options) : next_call_(Clock::now()) {
        if (options.rate > 0) {
            interval_ = std::chrono::duration_cast<Clock::duration>(
                std::chrono::duration<double>(options.threads / options.rate));
        }
    }

    // Before each call.
    void wait() {
        if (interval_ != Clock::duration::zero()) {
            std::this_thread::sleep_until(next_call_);
            next_call_ += interval_;
        }
    }

private:
    using Clock = std::chrono::steady_clock;

    Clock::duration interval_{};
    Clock::time_point next_call_;
};

// When a thread's time is over.
class Deadline {
public:
    explicit Deadline(const Options &options) {
        if (options.seconds > 0) {
            end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(options.seconds));
        }
    }
    bool passed() const { return work_is_over() || Clock::now() >= end_; }

private:
    using Clock = std::chrono::steady_clock;

    Clock::time_point end_ = Clock::time_point::max();
};

}  // namespace demo
