// Whose files and processes are read next: the time that those of each user have taken of late.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

namespace gpusnoop::discovery {

// For one thread.
class Turns {
public:
    using Clock = std::chrono::steady_clock;

    void spend(std::uint32_t user, Clock::duration time) {
        forget();
        spent_[user] += time;
    }
    [[nodiscard]] Clock::duration spent_by(std::uint32_t user) const {
        const auto found = spent_.find(user);
        return found == spent_.end() ? Clock::duration::zero() : found->second;
    }
    // No files of a user took much time, so it need not be asked whose a file is.
    [[nodiscard]] bool is_even() const { return spent_.empty(); }
    // Each half-life counts for half.
    void forget(Clock::time_point now = Clock::now()) {
        for (; !spent_.empty() && now - halved_at_ >= half_life; halved_at_ += half_life) {
            for (auto &[user, time] : spent_) {
                time /= 2;
            }
            std::erase_if(spent_, [](const auto &user) { return user.second < little; });
        }
        if (spent_.empty()) {
            halved_at_ = now;
        }
    }

private:
    static constexpr std::chrono::seconds half_life{10};
    static constexpr std::chrono::milliseconds little{100};

    std::map<std::uint32_t, Clock::duration> spent_;  // by uid
    Clock::time_point halved_at_ = Clock::now();
};

}  // namespace gpusnoop::discovery
