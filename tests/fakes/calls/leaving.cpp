// Calls that are entered and do not return.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>

#include "calls/around.h"
#include "calls/calls_cpp.h"
#include "calls/scenario.h"

namespace scenario {

namespace {

constexpr int kTimes = 100;

void jump_inside(void *to) {
    calls_jump(to);
}

// In a function of its own: what else its caller keeps in registers stays right.
__attribute__((noinline)) bool jump_out_of(void (*call)(void (*)(void *), void *)) {
    std::jmp_buf here;
    if (setjmp(here) == 0) {
        call(jump_inside, &here);
        return false;
    }
    return true;
}

bool longjmp_out(const Options & /*options*/) {
    bool left = true;
    for (int i = 0; i < kTimes; i++) {
        left = jump_out_of_calls() && left;
        // The same place on the stack, and this time the calls return.
        left = around(CALLS_plain, [] { return calls_plain(1); }) == 4 && left;
        left = around(CALLS_cpp_plain, [] { return calls::plain(1); }) == 7 && left;
    }
    return left;
}

bool exceptions(const Options & /*options*/) {
    int caught = 0;
    for (int i = 0; i < kTimes; i++) {
        try {
            const long result =
                around(CALLS_cpp_through, [&] { return calls::through(i % 3 != 0); });
            std::printf("returned %ld\n", result);
        } catch (const std::runtime_error &error) {
            std::printf("caught %s\n", error.what());
            caught++;
        }
        caught += around(CALLS_cpp_catches, [] { return calls::catches(true); }) == -1 ? 1 : 0;
    }
    return caught == kTimes / 3 * 2 + kTimes;
}

std::terminate_handler g_terminate = nullptr;

bool uncaught(const Options & /*options*/) {
    // The calls are counted by then, and the standard's own handler ends the program as ever.
    g_terminate = std::set_terminate([] {
        announce("uncaught");
        g_terminate();
    });
    return calls::through(true) == 0;
}

bool no_return(const Options & /*options*/) {
    int caught = 0;
    for (int i = 0; i < kTimes; i++) {
        try {
            calls::fail(i);
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    return caught == kTimes;
}

void throw_it(void * /*unused*/) {
    throw std::runtime_error("through C");
}

bool throw_through_c(const Options & /*options*/) {
    int caught = 0;
    for (int i = 0; i < kTimes; i++) {
        try {
            calls_callback(throw_it, nullptr);
        } catch (const std::runtime_error &error) {
            std::printf("caught %s\n", error.what());
            caught++;
        }
    }
    return caught == kTimes;
}

void end_thread(void * /*unused*/) {
    calls_end_thread(1);
}

void *end_in_c(void * /*unused*/) {
    calls_callback(end_thread, nullptr);
    return nullptr;
}

void *end_in_cpp(void * /*unused*/) {
    calls::callback(end_thread, nullptr);
    return nullptr;
}

bool thread_exit(const Options & /*options*/) {
    for (int i = 0; i < kTimes; i++) {
        pthread_t thread{};
        if (pthread_create(&thread, nullptr, i % 2 == 0 ? end_in_c : end_in_cpp, nullptr) != 0 ||
            pthread_join(thread, nullptr) != 0) {
            return false;
        }
    }
    return true;
}

void exit_inside(void * /*unused*/) {
    announce("exit_in_call");
    ::_exit(3);
}

void call_and_exit(void * /*unused*/) {
    calls::callback(exit_inside, nullptr);
}

bool exit_in_call(const Options & /*options*/) {
    calls_callback(call_and_exit, nullptr);
    return false;
}

template <int kSignal>
void die_inside(void * /*unused*/) {
    announce("dying");
    ::raise(kSignal);
}

template <auto kCall, int kSignal>
bool die_in_call(const Options & /*options*/) {
    kCall(die_inside<kSignal>, nullptr);
    return false;
}

// As a sandbox kills what makes a system call that it does not know.
void ask_the_forbidden(void * /*unused*/) {
    std::array<sock_filter, 4> code = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog filter{.len = static_cast<unsigned short>(code.size()), .filter = code.data()};
    announce("forbidden");
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) {
        ::syscall(SYS_getppid);
    }
}

bool filtered_in_call(const Options & /*options*/) {
    calls::callback(ask_the_forbidden, nullptr);
    return false;
}

// Its system calls are its own affair while it is in a call.
bool dispatched(const Options & /*options*/) {
    static volatile char g_selector = SYSCALL_DISPATCH_FILTER_ALLOW;
    if (::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &g_selector) != 0) {
        return true;  // a kernel that has no such thing
    }
    const auto result = around(CALLS_plain, [] {
        g_selector = SYSCALL_DISPATCH_FILTER_BLOCK;
        const auto inside = calls_plain(1);
        g_selector = SYSCALL_DISPATCH_FILTER_ALLOW;
        return inside;
    });
    return ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) == 0 && result == 4;
}

std::atomic<int> g_waiting = 0;

void wait_for_ever(void * /*unused*/) {
    g_waiting++;
    for (;;) {
        ::pause();
    }
}

void start_waiting_threads() {
    constexpr int kThreads = 8;
    for (int i = 0; i < kThreads; i++) {
        std::thread([i] {
            (i % 2 == 0 ? calls_callback : calls::callback)(wait_for_ever, nullptr);
        }).detach();
    }
    while (g_waiting != kThreads) {
        ::usleep(1000);
    }
}

bool killed(const Options & /*options*/) {
    start_waiting_threads();
    announce("killed");
    ::kill(::getpid(), SIGKILL);
    return false;
}

// The process ends while threads are in calls.
bool threads_left(const Options & /*options*/) {
    start_waiting_threads();
    return true;
}

}  // namespace

bool jump_out_of_calls() {
    return jump_out_of(calls_callback) && jump_out_of(calls::callback);
}

std::vector<Scenario> leaving_scenarios() {
    return {
        {"longjmp", longjmp_out},
        {"exceptions", exceptions},
        {"uncaught", uncaught, 128 + SIGABRT},
        {"no_return", no_return},
        {"throw_through_c", throw_through_c, 0, "fragile"},
        {"thread_exit", thread_exit},
        {"exit_in_call", exit_in_call, 3},
        {"killed", killed, 128 + SIGKILL},
        {"segv_in_call", die_in_call<calls_callback, SIGSEGV>, 128 + SIGSEGV},
        {"trap_in_call", die_in_call<calls_callback, SIGTRAP>, 128 + SIGTRAP},
        {"ill_in_call", die_in_call<calls::callback, SIGILL>, 128 + SIGILL},
        {"filtered_in_call", filtered_in_call, 128 + SIGSYS},
        {"dispatched", dispatched, 0, "fragile"},
        {"threads_left", threads_left},
    };
}

}  // namespace scenario
