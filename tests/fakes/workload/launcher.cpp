// launcher [long N | paced N | peek N] [--name NAME] [--wait-for-file FILE]: launches kernels as
// fast as it can, and frees and allocates device memory after each 5000th. With "long", each Nth
// launch takes a second and a half; with "paced", it rests a millisecond after each Nth; with
// "peek", it calls cudaPeekAtLastError N times after each. SIGUSR1 makes it slow, then idle, then
// slow again and so on; SIGUSR2 makes it fast. Prints "slow", "idle" or "fast" when it becomes
// that.

#include "workload/kernels.h"
#include "workload/options.h"

#include "cudart/cudart.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace {

constexpr unsigned kLaunchesABlock = 5000;
constexpr std::chrono::milliseconds kPause{2};
constexpr std::chrono::milliseconds kLong{1500};
constexpr std::chrono::milliseconds kRest{1};

enum Pace { kFast, kSlow, kIdle };
std::atomic<int> g_pace{kFast};

constexpr int kDeep = 20;
volatile int g_done = 0;  // what comes after a call, so that none of them is a tail call

__attribute__((noinline)) void renew(void **block, std::size_t bytes, int deeper) {
    if (deeper != 0) {
        renew(block, bytes, deeper - 1);
    } else {
        cudaFree(*block);
        cudaMalloc(block, bytes);
    }
    g_done = g_done + 1;
}

bool g_takes_long = false;

void in_call(const char * /*function*/, void * /*context*/) {
    if (g_takes_long) {
        g_takes_long = false;
        std::this_thread::sleep_for(kLong);
    }
}

void next_pace(int) {
    g_pace = g_pace == kSlow ? kIdle : kSlow;
}

void be_fast(int) {
    g_pace = kFast;
}

}  // namespace

int main(int argc, char **argv) {
    unsigned long_one = 0;  // no launch
    unsigned paced = 0;
    unsigned peeks = 0;
    const std::string_view way = argc > 2 ? argv[1] : "";
    if (way == "long" || way == "paced" || way == "peek") {
        const auto number = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
        if (way == "long") {
            long_one = number;
            standin_set_hook(in_call, nullptr);
        } else {
            (way == "paced" ? paced : peeks) = number;
        }
        argv[2] = argv[0];
        argv += 2;
        argc -= 2;
    }
    const demo::Options options = demo::parse_options(argc, argv);
    if (options.rate > 0) {
        g_pace = kSlow;
    }
    std::signal(SIGUSR1, next_pace);
    std::signal(SIGUSR2, be_fast);
    demo::watch_stop_signals();
    demo::prepare(options);
    int said = kFast;
    void *block = nullptr;
    for (unsigned launched = 0; !demo::stop_requested();) {
        const int pace = g_pace;
        if (pace != said) {
            std::puts(pace == kSlow ? "slow" : pace == kIdle ? "idle" : "fast");
            std::fflush(stdout);
            said = pace;
        }
        if (pace != kFast) {
            std::this_thread::sleep_for(kPause);
        }
        if (pace == kIdle) {
            continue;
        }
        if (paced != 0 && launched % paced == paced - 1) {
            std::this_thread::sleep_for(kRest);
        }
        g_takes_long = long_one != 0 && (launched + 1) % long_one == 0;
        demo::launch({1, 1, 1}, {32, 1, 1}, saxpy, 1, 2.0F, static_cast<float *>(block),
                     static_cast<float *>(block));
        for (unsigned i = 0; i < peeks; i++) {
            cudaPeekAtLastError();
        }
        if (++launched % kLaunchesABlock == 0) {
            renew(&block, launched / kLaunchesABlock, kDeep);
        }
    }
    return 0;
}
