// The sleep of discovery's thread between two rounds.
#pragma once

#include <chrono>
#include <utility>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::discovery {

class Sleeper {
public:
    using Clock = std::chrono::steady_clock;

    static Result<Sleeper> open();

    // Ends the sleep. For any thread.
    void wake() const;
    // Until wake(), until `until`, or until the descriptor `news` is readable (-1: there is none),
    // but not before `earliest` because of `news`.
    void sleep(Clock::time_point earliest, Clock::time_point until, int news);

private:
    explicit Sleeper(Fd woken) : woken_(std::move(woken)) {}
    // False: it was woken.
    bool wait(Clock::time_point until, int news);

    Fd woken_;
};

}  // namespace gpusnoop::discovery
