// When to leave off a piece of work for somebody else.
#pragma once

#include <algorithm>
#include <chrono>
#include <stop_token>

namespace gpusnoop {

struct WorkLimit {
    std::stop_token stop = {};
    std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();

    [[nodiscard]] bool is_reached() const {
        return stop.stop_requested() || std::chrono::steady_clock::now() >= until;
    }
    // Until then; nothing, if it is reached.
    [[nodiscard]] std::chrono::steady_clock::duration left() const {
        return is_reached() ? std::chrono::steady_clock::duration::zero()
                            : until - std::chrono::steady_clock::now();
    }
    // The same, and not longer than this from now on.
    [[nodiscard]] WorkLimit at_most(std::chrono::steady_clock::duration longest) const {
        return {stop, std::min(until, std::chrono::steady_clock::now() + longest)};
    }
};

}  // namespace gpusnoop
