// What a process really loses while its launches are observed, over what that is said to cost it.
#pragma once

#include <cmath>
#include <cstddef>
#include <deque>
#include <optional>

#include "exporter/probes/cuda/governor/unseen_launches.h"

namespace gpusnoop::probes {

// A program that waits or copies does the same work between two of these calls, whether its
// launches are observed or not. So what it takes longer for them in a turn than in the pauses on
// either side, it has lost. One such comparison says little, as programs do not run evenly; the sum
// of many has an error that their differences show.
class LossMeter {
public:
    using Counts = UnseenLaunches::Counts;
    static constexpr std::size_t enough_comparisons = 30;
    static constexpr std::size_t most_comparisons = 120;
    // Of fewer in a turn, or in the pauses beside it, the time for each says little.
    static constexpr double enough_calls = 20;

    void pause_begins(const Counts &now) {
        turn_.reset();
        if (in_ == In::turn) {
            turn_ = since(now);
        } else {
            pause_.reset();
        }
        in_ = In::pause;
        began_ = now;
    }
    void pause_ends(const Counts &now) {
        if (in_ == In::pause) {
            const Window pause = since(now);
            if (turn_ && pause_) {
                compare(*turn_, *pause_ + pause);
            }
            pause_ = pause;
        }
        turn_.reset();
        in_ = In::turn;
        began_ = now;
    }
    // What follows is no turn: its launches are all seen to their end.
    void turns_end() {
        in_ = In::nothing;
        turn_.reset();
        pause_.reset();
    }

    // By the last comparisons, if there are enough.
    [[nodiscard]] std::optional<LossFactor> factor() const {
        if (comparisons_.size() < enough_comparisons) {
            return std::nullopt;
        }
        double lost = 0;
        double cost = 0;
        for (const Comparison &one : comparisons_) {
            lost += one.lost_ns;
            cost += one.cost_ns;
        }
        const double ratio = lost / cost;
        double squares = 0;
        for (const Comparison &one : comparisons_) {
            const double rest = one.lost_ns - ratio * one.cost_ns;
            squares += rest * rest;
        }
        const auto number = static_cast<double>(comparisons_.size());
        const double error = of_95_percent * std::sqrt(squares * number / (number - 1)) / cost;
        return LossFactor{ratio, error};
    }

private:
    static constexpr double of_95_percent = 1.96;

    struct Window {
        double ns;
        double cost_ns;
        double calls;

        Window operator+(const Window &other) const {
            return {ns + other.ns, cost_ns + other.cost_ns, calls + other.calls};
        }
    };
    struct Comparison {
        double lost_ns;
        double cost_ns;  // of its launches, as reported
    };
    enum class In { nothing, turn, pause };

    [[nodiscard]] Window since(const Counts &now) const {
        const auto calls = now.calls > began_.calls ? now.calls - began_.calls : 0;
        return {static_cast<double>((now.at - began_.at).count()),
                static_cast<double>((now.cost - began_.cost).count()), static_cast<double>(calls)};
    }
    void compare(const Window &turn, const Window &pauses) {
        if (turn.calls < enough_calls || pauses.calls < enough_calls) {
            return;
        }
        const double part = turn.calls / pauses.calls;
        const Comparison one{turn.ns - part * pauses.ns, turn.cost_ns - part * pauses.cost_ns};
        if (one.cost_ns <= 0) {
            return;
        }
        comparisons_.push_back(one);
        if (comparisons_.size() > most_comparisons) {
            comparisons_.pop_front();
        }
    }

    In in_ = In::nothing;
    Counts began_;
    std::optional<Window> turn_;   // the one before the present pause
    std::optional<Window> pause_;  // the one before that turn
    std::deque<Comparison> comparisons_;
};

}  // namespace gpusnoop::probes
