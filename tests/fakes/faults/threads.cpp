// Threads that end, in a call or soon after one.

#include "faults/scenario.h"

#include <atomic>
#include <cstdlib>

#include <pthread.h>
#include <unistd.h>

namespace faults {
namespace {

constexpr int kAtOnce = 50;

void *allocate(void * /*unused*/) {
    allocate_and_free(64);
    return nullptr;
}

bool run_threads(int count, void *(*body)(void *)) {
    for (int started = 0; started < count; started += kAtOnce) {
        pthread_t threads[kAtOnce];
        for (pthread_t &thread : threads) {
            if (pthread_create(&thread, nullptr, body, nullptr) != 0) {
                return false;
            }
        }
        for (const pthread_t thread : threads) {
            pthread_join(thread, nullptr);
        }
    }
    return true;
}

void end_thread() {
    pthread_exit(nullptr);
}

bool threads_ending_in_calls(int count) {
    on_every("cudaMalloc", end_thread);
    const bool passed = run_threads(count, allocate);
    clear_actions();
    return passed && allocate_and_free(64);
}

bool thread_exit() {
    return threads_ending_in_calls(100);
}

bool many_threads() {
    return run_threads(2000, allocate) && allocate_and_free(64);
}

bool many_threads_exit() {
    return threads_ending_in_calls(2000);
}

std::atomic<bool> g_in_call = false;

void wait_for_cancellation() {
    g_in_call = true;
    for (;;) {
        pause();  // a cancellation point
    }
}

bool thread_cancel() {
    on_next("cudaMalloc", wait_for_cancellation);
    pthread_t thread{};
    if (pthread_create(&thread, nullptr, allocate, nullptr) != 0) {
        return false;
    }
    while (!g_in_call) {
        usleep(1000);
    }
    pthread_cancel(thread);
    void *result = nullptr;
    pthread_join(thread, &result);
    return result == PTHREAD_CANCELED && allocate_and_free(64);
}

pthread_t g_main_thread;

void *outlive_main(void * /*unused*/) {
    pthread_join(g_main_thread, nullptr);
    usleep(20000);  // an observer that saw the main thread's end has time to draw its conclusion
    const bool passed = allocate_and_free(64);
    announce("main_thread_exit");
    std::exit(passed ? 0 : 1);
}

// The process goes on with its main thread dead, and inside a call at that.
bool main_thread_exit() {
    g_main_thread = pthread_self();
    pthread_t thread{};
    if (pthread_create(&thread, nullptr, outlive_main, nullptr) != 0) {
        return false;
    }
    on_next("cudaMalloc", end_thread);
    allocate_and_free(64);
    return false;
}

}  // namespace

std::vector<Scenario> thread_scenarios() {
    return {
        {"thread_exit", thread_exit},           {"thread_cancel", thread_cancel},
        {"many_threads", many_threads},         {"many_threads_exit", many_threads_exit},
        {"main_thread_exit", main_thread_exit},
    };
}

}  // namespace faults
