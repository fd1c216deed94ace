// Whose files and processes are read next: the time that those of each user have taken of late.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace gpusnoop::discovery {

// For one thread.
class Turns {
public:
    using Clock = std::chrono::steady_clock;

    // Its lifetime is time that a user takes, less the time of others inside it.
    class Spending {
    public:
        // Without a user, nobody is charged, also not those around it.
        Spending(Turns &turns, std::optional<std::uint32_t> user,
                 Clock::time_point now = Clock::now())
            : turns_(&turns), user_(user), began_(now), others_(turns.all_) {}
        ~Spending() { end(); }
        Spending(const Spending &) = delete;
        Spending &operator=(const Spending &) = delete;

        void end(Clock::time_point now = Clock::now()) {
            if (Turns *const turns = std::exchange(turns_, nullptr)) {
                const auto took = now - began_ - (turns->all_ - others_);
                if (took < least_spent) {
                    return;
                }
                if (user_) {
                    turns->spend(*user_, took);
                } else {
                    turns->all_ += took;
                }
            }
        }

    private:
        Turns *turns_;
        std::optional<std::uint32_t> user_;
        Clock::time_point began_;
        Clock::duration others_;
    };

    void spend(std::uint32_t user, Clock::duration time) {
        forget();
        spent_[user] += time;
        all_ += time;
    }
    [[nodiscard]] Clock::duration spent_by(std::uint32_t user) const {
        const auto found = spent_.find(user);
        return found == spent_.end() ? Clock::duration::zero() : found->second;
    }
    // No files of a user took much time, so it need not be asked whose a file is.
    [[nodiscard]] bool is_even() const {
        return std::ranges::none_of(spent_, [](const auto &user) { return user.second >= little; });
    }
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
    static constexpr std::chrono::milliseconds least_spent{1};

    std::map<std::uint32_t, Clock::duration> spent_;  // by uid
    Clock::duration all_{};                           // ever
    Clock::time_point halved_at_ = Clock::now();
};

}  // namespace gpusnoop::discovery
