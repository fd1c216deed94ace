// How many launches a process made while they were not counted.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "exporter/probes/frame/bpf/overhead_limits.h"

namespace gpusnoop::probes {

// How many times the reported cost a process loses, and what that may be wrong by: see LossMeter.
struct LossFactor {
    double estimate = 0;
    double error = 0;  // with a probability of 5 %, it is wrong by more

    [[nodiscard]] bool is_certain() const { return error <= estimate / 2; }
};

// Launches of a process that were not counted, because it cost more than it may.
struct Unseen {
    std::chrono::nanoseconds time{};  // in which they were not
    std::uint64_t launches = 0;       // estimated
    // Between which they are: see UnseenLaunches.
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    std::optional<LossFactor> loss{};  // once it is known
};

// An estimate, from the process's turns on either side of each pause. A program that waits or
// copies makes so many launches for each of these calls, which are counted in pauses, too, so that
// it does not matter that it is slower in a turn. Of one that only launches, the rate counts: that
// of the time which the probes left it, by what they are said to cost. At least, they cost nothing;
// at most, MaxOverhead::true_cost times as much. All counts are since the process began.
class UnseenLaunches {
public:
    struct Counts {
        std::chrono::nanoseconds at{};
        std::chrono::nanoseconds cost{};  // of the probes
        std::uint64_t launches = 0;
        std::uint64_t calls = 0;  // all others
    };
    // Of fewer in the last turns, the number of launches for each says little.
    static constexpr double enough_calls = 20;
    // What a turn still counts when the next one ends.
    static constexpr double kept = 0.75;
    // A longer one is several.
    static constexpr std::chrono::seconds longest_turn{1};

    // What follows is a turn, if its launches are counted.
    void pause_ends(const Counts &now) {
        if (is_paused_) {
            paused_calls_ += since(began_.calls, now.calls);
            paused_ns_ += static_cast<double>((now.at - began_.at).count());
            paused_launches_ += since(began_.launches, now.launches);
        }
        is_paused_ = false;
    }
    void turn_begins(const Counts &now) {
        pause_ends(now);
        is_in_turn_ = true;
        began_ = now;
    }

    void pause_begins(const Counts &now) {
        if (is_in_turn_) {
            end_turn(now);
        }
        is_in_turn_ = false;
        is_paused_ = true;
        began_ = now;
    }

    // What follows is no turn: its launches are all seen to their end.
    void turns_end() { is_in_turn_ = false; }
    [[nodiscard]] bool is_in_turn() const { return is_in_turn_; }

    // For every now and then.
    void note(const Counts &now) {
        if (is_in_turn_ && now.at - began_.at >= longest_turn) {
            end_turn(now);
            began_ = now;
        } else if (is_paused_) {
            const double ns = paused_ns_ + static_cast<double>((now.at - began_.at).count());
            const double calls = paused_calls_ + since(began_.calls, now.calls);
            const double launches = paused_launches_ + since(began_.launches, now.launches);
            for (Estimate &one : estimates_) {
                one.raise_to(unseen(one, calls, ns, launches));
            }
        }
    }

    [[nodiscard]] std::uint64_t least() const { return whole(estimates_.front()); }
    [[nodiscard]] std::uint64_t total() const { return whole(estimates_[1]); }
    [[nodiscard]] std::uint64_t most() const { return whole(estimates_.back()); }

private:
    // By how many times the cost that is known the program is slower in its turns.
    struct Estimate {
        double times = 1;
        double free_ns = 0;  // of the last turns, without that
        double settled = 0;
        double total = 0;

        void end_turn(double took, double cost, double weight) {
            const double least = took / (1 + times);  // some of it was the program's
            free_ns = free_ns * weight + std::max(took - times * cost, least);
        }
        void raise_to(double unsettled) { total = std::max(total, settled + unsettled); }
    };
    static std::uint64_t whole(const Estimate &one) {
        return static_cast<std::uint64_t>(one.total);
    }
    static double since(std::uint64_t before, std::uint64_t now) {
        return now > before ? static_cast<double>(now - before) : 0;
    }

    void end_turn(const Counts &now) {
        const auto took = static_cast<double>((now.at - began_.at).count());
        const auto cost = static_cast<double>((now.cost - began_.cost).count());
        // Until there are enough calls, those of all turns count.
        const double weight = calls_ > 0 && calls_ < enough_calls ? 1 : kept;
        launches_ = launches_ * weight + since(began_.launches, now.launches);
        calls_ = calls_ * weight + since(began_.calls, now.calls);
        for (Estimate &one : estimates_) {
            one.end_turn(took, cost, weight);
            one.raise_to(unseen(one, paused_calls_, paused_ns_, paused_launches_));
        }
        // And the pauses until then are estimated once more when there are.
        if (calls_ >= enough_calls || calls_ + paused_calls_ == 0) {
            for (Estimate &one : estimates_) {
                one.settled += unseen(one, paused_calls_, paused_ns_, paused_launches_);
            }
            paused_calls_ = paused_ns_ = paused_launches_ = 0;
        }
    }
    // In pauses with so many other calls, that took so long, and at whose beginning so many
    // launches were counted before their probe was gone.
    [[nodiscard]] double unseen(const Estimate &estimate, double calls, double ns,
                                double counted) const {
        if (estimate.free_ns == 0) {
            return 0;  // there was no turn yet
        }
        const double made =
            calls_ >= enough_calls ? calls * launches_ / calls_ : ns * launches_ / estimate.free_ns;
        return std::max(0.0, made - counted);
    }

    bool is_in_turn_ = false;
    bool is_paused_ = false;
    Counts began_;
    // Of the last turns.
    double launches_ = 0;
    double calls_ = 0;
    // Of the pauses that are not settled.
    double paused_calls_ = 0;
    double paused_ns_ = 0;
    double paused_launches_ = 0;
    std::array<Estimate, 3> estimates_{
        {{.times = 0}, {.times = 1}, {.times = MaxOverhead::true_cost}}};
};

}  // namespace gpusnoop::probes
