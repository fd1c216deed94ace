// launcher [WAY N] [--name NAME] [--wait-for-file FILE]: launches kernels as fast as it can, and
// frees and allocates device memory after each 5000th, or after each long one if these are more
// often. SIGUSR1 makes it slow, then idle, then slow again and so on; SIGUSR2 makes it fast. Prints
// "slow", "idle" or "fast" when it becomes that.
//
//   long N    each Nth launch takes a second and a half
//   busy N    each launch takes N microseconds of CPU time
//   paced N   it rests a millisecond after each Nth launch
//   peek N    it calls cudaPeekAtLastError N times after each launch
//   execs N   at first, it launches ten times and becomes this program again, N times
//   forks N   at first, it launches once, and so many children launch ten times each
//   shapes N  at first, it launches with so many grids, twice with each

#include "workload/kernels.h"
#include "workload/options.h"

#include "cudart/cudart.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr unsigned kLaunchesABlock = 5000;
constexpr unsigned kLaunchesALife = 10;
constexpr std::chrono::milliseconds kPause{2};
constexpr std::chrono::milliseconds kIdlePause{20};  // hundreds of idle ones take no CPU
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

void sleep_in_call(const char * /*function*/, void * /*context*/) {
    if (g_takes_long) {
        g_takes_long = false;
        std::this_thread::sleep_for(kLong);
    }
}

std::chrono::microseconds g_busy{};

// Of the two layers of a launch, the driver's works.
void work_in_call(const char *function, void * /*context*/) {
    if (std::string_view(function).substr(0, 4) == "cuda") {
        return;
    }
    const auto until = std::chrono::steady_clock::now() + g_busy;
    while (std::chrono::steady_clock::now() < until) {
    }
}

void next_pace(int) {
    g_pace = g_pace == kSlow ? kIdle : kSlow;
}

void be_fast(int) {
    g_pace = kFast;
}

void launch_one(float *block, unsigned width = 1) {
    demo::launch({width, 1, 1}, {32, 1, 1}, saxpy, 1, 2.0F, static_cast<const float *>(block),
                 block);
}

void launch_a_life() {
    for (unsigned i = 0; i < kLaunchesALife; i++) {
        launch_one(nullptr);
    }
}

void launch_in_children(unsigned children) {
    for (unsigned child = 0; child < children; child++) {
        const pid_t pid = fork();
        if (pid == 0) {
            launch_a_life();
            _exit(0);
        }
        waitpid(pid, nullptr, 0);
    }
}

// `words`: the command line, with `execs` and the number.
[[noreturn]] void become_again(std::vector<char *> words, unsigned execs) {
    char path[4096] = "";  // the next program is named by it
    (void)!readlink("/proc/self/exe", path, sizeof(path) - 1);
    std::string left = std::to_string(execs - 1);
    words[2] = left.data();
    execv(path, words.data());
    std::perror("exec");
    std::_Exit(1);
}

void launch_shapes(unsigned shapes) {
    for (unsigned i = 0; i < 2 * shapes; i++) {
        launch_one(nullptr, 1 + i % shapes);
    }
}

struct Way {
    unsigned long_one = 0;  // no launch
    unsigned a_block = kLaunchesABlock;
    unsigned paced = 0;
    unsigned peeks = 0;
    unsigned execs = 0;
    unsigned forks = 0;
    unsigned shapes = 0;
};

// False: the first words are no way.
bool read_way(std::string_view name, unsigned number, Way &way) {
    if (name == "long") {
        way.long_one = number;
        way.a_block = std::min(kLaunchesABlock, number);
        standin_set_hook(sleep_in_call, nullptr);
    } else if (name == "busy") {
        g_busy = std::chrono::microseconds(number);
        standin_set_hook(work_in_call, nullptr);
    } else if (name == "paced") {
        way.paced = number;
    } else if (name == "peek") {
        way.peeks = number;
    } else if (name == "execs") {
        way.execs = number;
    } else if (name == "forks") {
        way.forks = number;
    } else if (name == "shapes") {
        way.shapes = number;
    } else {
        return false;
    }
    return true;
}

}  // namespace

int main(int argc, char **argv) {
    const std::vector<char *> words(argv, argv + argc + 1);  // with the null at the end
    Way way;
    if (argc > 2 &&
        read_way(argv[1], static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)), way)) {
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
    if (way.execs > 0) {
        launch_a_life();
        become_again(words, way.execs);
    }
    if (way.forks > 0) {
        launch_one(nullptr);
        launch_in_children(way.forks);
    }
    launch_shapes(way.shapes);
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
            std::this_thread::sleep_for(pace == kIdle ? kIdlePause : kPause);
        }
        if (pace == kIdle) {
            continue;
        }
        if (way.paced != 0 && launched % way.paced == way.paced - 1) {
            std::this_thread::sleep_for(kRest);
        }
        g_takes_long = way.long_one != 0 && (launched + 1) % way.long_one == 0;
        launch_one(static_cast<float *>(block));
        for (unsigned i = 0; i < way.peeks; i++) {
            cudaPeekAtLastError();
        }
        if (++launched % way.a_block == 0) {
            renew(&block, launched / way.a_block, kDeep);
        }
    }
    return 0;
}
