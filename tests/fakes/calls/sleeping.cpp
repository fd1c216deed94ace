// Slow calls with known arguments, from known functions.
#include <sys/prctl.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "calls/around.h"
#include "calls/calls_cpp.h"
#include "calls/scenario.h"

namespace scenario {

namespace {

constexpr int kThreads = 2;
constexpr long kCalls = 40;  // of each thread and function
constexpr long kSleepsOf = 8;

}  // namespace

struct Call {
    long milliseconds;
    int thread;
    long number;

    [[nodiscard]] int b() const { return thread + 1; }
    [[nodiscard]] long c() const { return -number; }
    [[nodiscard]] long d() const { return number << 40; }
    [[nodiscard]] static long e() { return 0x6fff'ffff'ffff'fff0; }
};

namespace {

void print_slow(const char *name, const std::string &comm, const Call &call) {
    if (call.milliseconds > 0) {
        std::printf("slow %s thread=%s 1=%ld 2=%d 3=%ld 4=%ld 5=%ld\n", name, comm.c_str(),
                    call.milliseconds, call.b(), call.c(), call.d(), Call::e());
    }
}

}  // namespace

struct Sleep {
    Call call;
    bool cpp;
    bool right = false;
};

// Not inlined and with names that others see: these are to be on the stack, with calls_callback()
// between the first two, which has a return probe itself.
__attribute__((noinline)) void sleep_inside(void *what) {
    auto &sleep = *static_cast<Sleep *>(what);
    const Call &call = sleep.call;
    long word = 0;
    if (sleep.cpp) {
        const long result = around(CALLS_cpp_sleep, [&] {
            return calls::sleep(call.milliseconds, call.b(), call.c(), call.d(), Call::e(), &word);
        });
        sleep.right = result == word;
    } else {
        const int result = around(CALLS_sleep, [&] {
            return calls_sleep(call.milliseconds, call.b(), call.c(), call.d(), Call::e(), &word);
        });
        sleep.right = result == call.b();
    }
}

__attribute__((noinline)) void sleep_around(Sleep &sleep) {
    around(CALLS_callback, [&] { calls_callback(sleep_inside, &sleep); });
}

__attribute__((noinline)) bool sleep_outside(const Call &call, bool cpp) {
    Sleep sleep{call, cpp};
    sleep_around(sleep);
    return sleep.right;
}

bool sleep_now_and_then(const Options & /*options*/) {
    std::atomic<bool> right = true;
    const auto work = [&](int thread) {
        prctl(PR_SET_NAME, ("sleeper" + std::to_string(thread)).c_str());
        for (long i = 0; i < kCalls; i++) {
            const Call call{i % kSleepsOf == 3 ? COUNT_SLEEP_MS : 0, thread, i};
            for (const bool cpp : {false, true}) {
                if (!sleep_outside(call, cpp)) {
                    right = false;
                }
            }
        }
    };
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; thread++) {
        threads.emplace_back(work, thread);
    }
    threads.clear();
    // In order, whichever thread was first.
    for (int thread = 0; thread < kThreads; thread++) {
        for (long i = kSleepsOf - 5; i < kCalls; i += kSleepsOf) {
            const Call call{COUNT_SLEEP_MS, thread, i};
            print_slow("calls_sleep", "sleeper" + std::to_string(thread), call);
            print_slow("calls::sleep", "sleeper" + std::to_string(thread), call);
        }
    }
    return right;
}

}  // namespace scenario
