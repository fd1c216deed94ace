// A call that is entered and never returns.

#include "faults/scenario.h"
#include "workload/kernels.h"

#include <alloca.h>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include <unistd.h>

namespace faults {
namespace {

constexpr int kTimes = 100;

std::jmp_buf g_before_call;

void jump_out() {
    std::longjmp(g_before_call, 1);
}

// 0 when the call returned.
__attribute__((noinline)) int call_and_jump_out() {
    if (setjmp(g_before_call) == 0) {
        void *memory = nullptr;
        cudaMalloc(&memory, 64);
        return 0;
    }
    standin_reset_depth();
    return 1;
}

// Its call's frame lies below (deeper than) that of the call that was left.
__attribute__((noinline)) bool allocate_deeper() {
    auto *room = static_cast<volatile char *>(alloca(16384));
    room[0] = 1;
    const bool done = allocate_and_free(128);
    return done && room[0] == 1;  // uses the room: this call is no tail call
}

bool longjmp_out() {
    int left = 0;
    on_every("cudaMalloc", jump_out);
    for (int time = 0; time < kTimes; ++time) {
        left += call_and_jump_out();
    }
    clear_actions();
    return left == kTimes && allocate_and_free(64);
}

bool longjmp_then_deeper() {
    int left = 0;
    bool called = true;
    for (int time = 0; time < kTimes; ++time) {
        on_every("cudaMalloc", jump_out);
        left += call_and_jump_out();
        clear_actions();
        called = allocate_deeper() && called;
    }
    return left == kTimes && called;
}

__attribute__((noinline)) int launch_and_jump_out() {
    if (setjmp(g_before_call) == 0) {
        demo::launch_known_arguments();
        return 0;
    }
    standin_reset_depth();
    return 1;
}

void throw_out() {
    throw std::runtime_error("out of the call");
}

int launch_and_throw_out() {
    try {
        demo::launch_known_arguments();
    } catch (const std::runtime_error &) {
        standin_reset_depth();
        return 1;
    }
    return 0;
}

// One launch in three is left, of which the first is one.
bool leave_launches(const char *function, void (*leave)(), int (*launch)()) {
    int left = 0;
    for (int time = 0; time < kTimes; ++time) {
        on_every(function, leave);
        left += launch();
        clear_actions();
        left += launch();
        left += launch();
    }
    return left == kTimes;
}

bool longjmp_out_of_launches() {
    return leave_launches("cudaLaunchKernel", jump_out, launch_and_jump_out);
}

bool longjmp_out_of_driver_launches() {
    return leave_launches("cuLaunchKernel", jump_out, launch_and_jump_out);
}

bool exception_out_of_driver_launches() {
    return leave_launches("cuLaunchKernel", throw_out, launch_and_throw_out);
}

bool exception() {
    on_next("cudaMalloc", throw_out);
    try {
        allocate_and_free(64);
    } catch (const std::runtime_error &) {
        standin_reset_depth();
        return allocate_and_free(64);
    }
    return false;
}

void exit_with_3() {
    announce("exit_in_call");
    std::exit(3);
}

bool exit_in_call() {
    on_next("cudaMalloc", exit_with_3);
    allocate_and_free(64);
    return false;
}

void die_of_kill() {
    announce("sigkill");
    kill(getpid(), SIGKILL);
    pause();
}

bool sigkill() {
    const bool called = allocate_and_free(64);
    on_next("cudaMalloc", die_of_kill);
    allocate_and_free(64);
    return called && false;
}

std::atomic<int> g_waiting = 0;

void wait_for_ever() {
    ++g_waiting;
    for (;;) {
        pause();
    }
}

void start_waiting_threads(int count) {
    on_every("cudaMalloc", wait_for_ever);
    for (int thread = 0; thread < count; ++thread) {
        std::thread([] { allocate_and_free(64); }).detach();
    }
    while (g_waiting != count) {
        usleep(1000);
    }
    clear_actions();
}

bool sigkill_threads() {
    start_waiting_threads(8);
    announce("sigkill_threads");
    kill(getpid(), SIGKILL);
    return false;
}

// The process ends by itself while threads are in calls.
bool daemon_threads() {
    start_waiting_threads(8);
    return allocate_and_free(64);
}

void abort_with_message() {
    announce("abort_in_call");
    std::abort();
}

bool abort_in_call() {
    on_next("cudaMalloc", abort_with_message);
    allocate_and_free(64);
    return false;
}

}  // namespace

std::vector<Scenario> leaving_scenarios() {
    return {
        {"longjmp", longjmp_out},
        {"longjmp_then_deeper", longjmp_then_deeper},
        {"longjmp_out_of_launches", longjmp_out_of_launches},
        {"longjmp_out_of_driver_launches", longjmp_out_of_driver_launches},
        {"exception", exception, 0, true},
        {"exception_out_of_driver_launches", exception_out_of_driver_launches, 0, true},
        {"exit_in_call", exit_in_call, 3},
        {"abort_in_call", abort_in_call, 128 + SIGABRT},
        {"sigkill", sigkill, 128 + SIGKILL},
        {"sigkill_threads", sigkill_threads, 128 + SIGKILL},
        {"daemon_threads", daemon_threads},
    };
}

}  // namespace faults
