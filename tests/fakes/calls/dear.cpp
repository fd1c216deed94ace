// One thread makes many calls of one function; another makes few of others, and is inside one of
// them most of the time; a third calls a function a thousand times a second. Until it is stopped,
// SIGUSR1 makes the first slow, and then fast again: it says so.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "calls/around.h"
#include "calls/calls_cpp.h"
#include "calls/scenario.h"
#include "workload/options.h"

namespace scenario {

namespace {

constexpr std::uint64_t kIterationsOfRare = 100;
constexpr std::uint64_t kIterationsOfOften = 10;
constexpr std::chrono::milliseconds kPauseOfSlow{10};
constexpr std::chrono::milliseconds kPauseOfOften{1};

std::atomic<bool> g_is_slow = false;

void change_pace(int) {
    g_is_slow = !g_is_slow;
}

template <typename Calls>
bool repeat(const Options &options, std::uint64_t iterations, Calls calls) {
    bool right = true;
    for (std::uint64_t i = 0; options.until_stopped ? !demo::stop_requested() : i < iterations;
         i++) {
        right = calls(static_cast<long>(i)) && right;
    }
    return right;
}

bool call_rare(long number) {
    around(CALLS_wait, [] { calls_wait(COUNT_SLEEP_MS); });
    return around(CALLS_status, [] { return calls_status(7); }) == 7 &&
           around(CALLS_cpp_choose, [&] { return calls::choose(1, number); }) == number * 3 &&
           around(CALLS_eight, [] { return calls_eight(0, 0, 0, 0, 0, 0, 0, 1); }) == 8;
}

bool call_often(long number) {
    std::this_thread::sleep_for(kPauseOfOften);
    return around(CALLS_inner, [&] { return calls_inner(number); }) == number + 1;
}

}  // namespace

bool dear_and_rare(const Options &options) {
    std::signal(SIGUSR1, change_pace);
    std::atomic<bool> rare_is_right = true;
    std::jthread rare([&] {
        rare_is_right = repeat(options, options.iterations / kIterationsOfRare, call_rare);
    });
    std::atomic<bool> often_is_right = true;
    std::jthread often([&] {
        often_is_right = repeat(options, options.iterations / kIterationsOfOften, call_often);
    });
    bool was_slow = false;
    const bool dear_is_right = repeat(options, 10 * options.iterations, [&](long number) {
        const bool is_slow = g_is_slow;
        if (is_slow != was_slow) {
            std::puts(is_slow ? "slow" : "fast");
            std::fflush(stdout);
            was_slow = is_slow;
        }
        if (is_slow) {
            std::this_thread::sleep_for(kPauseOfSlow);
        }
        return around(CALLS_plain, [&] { return calls_plain(number); }) == 3 * number + 1;
    });
    rare.join();
    often.join();
    return dear_is_right && rare_is_right && often_is_right;
}

}  // namespace scenario
