// The sleep of a thread between two rounds.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "exporter/base/fd.h"

namespace gpusnoop {

class Sleeper {
public:
    using Clock = std::chrono::steady_clock;

    // Throws std::system_error, as a thread does that cannot start.
    Sleeper();

    // Ends a sleep when it is readable. Before the first sleep; it must stay open.
    void watch(int descriptor) { descriptors_.push_back({descriptor, POLLIN, 0}); }
    // Ends the sleep, or the next one. For any thread.
    void wake() const;
    // Until wake(), until `until`, or until a watched descriptor is readable, but not before
    // `earliest` because of these.
    void sleep(Clock::time_point earliest, Clock::time_point until);

private:
    // Of the first so many descriptors. False: it was woken.
    bool wait(Clock::time_point until, std::size_t descriptors);

    Fd woken_;
    std::vector<pollfd> descriptors_;  // the first is woken_
};

}  // namespace gpusnoop
