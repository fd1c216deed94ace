// launcher [--name NAME] [--wait-for-file FILE]: launches kernels as fast as it can, and frees and
// allocates device memory after each thousandth. SIGUSR1 makes it slow, then idle, then slow again
// and so on. Prints "slow" or "idle" when it is that.

#include "workload/kernels.h"
#include "workload/options.h"

#include "cudart/cudart.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <thread>

namespace {

constexpr unsigned kLaunchesABlock = 5000;
constexpr std::chrono::milliseconds kPause{2};

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

void next_pace(int) {
    g_pace = g_pace == kSlow ? kIdle : kSlow;
}

}  // namespace

int main(int argc, char **argv) {
    const demo::Options options = demo::parse_options(argc, argv);
    if (options.rate > 0) {
        g_pace = kSlow;
    }
    std::signal(SIGUSR1, next_pace);
    demo::watch_stop_signals();
    demo::prepare(options);
    int said = kFast;
    void *block = nullptr;
    for (unsigned launched = 0; !demo::stop_requested();) {
        const int pace = g_pace;
        if (pace != said) {
            std::puts(pace == kSlow ? "slow" : "idle");
            std::fflush(stdout);
            said = pace;
        }
        if (pace != kFast) {
            std::this_thread::sleep_for(kPause);
        }
        if (pace == kIdle) {
            continue;
        }
        demo::launch({1, 1, 1}, {32, 1, 1}, saxpy, 1, 2.0F, static_cast<float *>(block),
                     static_cast<float *>(block));
        if (++launched % kLaunchesABlock == 0) {
            renew(&block, launched / kLaunchesABlock, kDeep);
        }
    }
    return 0;
}
