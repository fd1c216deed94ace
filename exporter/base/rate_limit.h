// At most so many a second; counts what is over.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

namespace gpusnoop {

// Times of one clock, which does not go back.
class RateLimit {
public:
    explicit RateLimit(std::uint32_t per_second) : per_second_(per_second) {}

    // Whether one more may be done now. If not, it is suppressed.
    [[nodiscard]] bool allow(std::chrono::nanoseconds now) {
        if (is_over(now)) {
            began_ = now;
            done_ = 0;
        }
        if (done_ < per_second_) {
            done_++;
            return true;
        }
        suppressed_++;
        return false;
    }

    // Whether the second in which something was allowed or suppressed is over.
    [[nodiscard]] bool is_over(std::chrono::nanoseconds now) const {
        return now - began_ >= std::chrono::seconds(1);
    }

    // How many were suppressed since this was asked.
    std::uint64_t take_suppressed() { return std::exchange(suppressed_, 0); }

private:
    std::uint32_t per_second_;
    std::uint32_t done_ = 0;
    std::uint64_t suppressed_ = 0;
    std::chrono::nanoseconds began_{};
};

}  // namespace gpusnoop
