#include "cudart/call.h"

#include "cudart/memory.h"
#include "cudart/registry.h"
#include "cudart/truth_writer.h"

#include <cstdlib>
#include <cstring>

#include <pthread.h>

namespace standin {
namespace {

std::uint32_t g_image = 0;
Hook g_hook = nullptr;
void *g_hook_context = nullptr;
thread_local ThreadState t_state;

// A child must find no lock held by a thread that it does not have.
void before_fork() {
    lock_memory_for_fork();
    lock_registry_for_fork();
    lock_truth_for_fork();
}

void unlock_after_fork() {
    unlock_truth_after_fork();
    unlock_registry_after_fork();
    unlock_memory_after_fork();
}

// The child's thread has returns ahead of it for calls that it never made, so its depth is zero.
void after_fork_in_child() {
    ++g_image;
    t_state.depth = 0;
    forget_truth_of_parent();
    unlock_after_fork();
}

__attribute__((constructor)) void watch_forks() {
    pthread_atfork(before_fork, unlock_after_fork, after_fork_in_child);
}

}  // namespace

ThreadState &thread_state() {
    return t_state;
}

Call enter(truth::Function function) {
    const bool outermost = t_state.depth++ == 0;
    count_entry(function, outermost);
    return {function, g_image, outermost};
}

bool counts(const Call &call) {
    return call.outermost && call.image == g_image;
}

int leave(const Call &call, int error) {
    if (call.image != g_image) {
        count_return_without_entry();
        return error;
    }
    count_result(call.function, call.outermost, error);
    --t_state.depth;
    const bool reports_error = call.function == truth::Function::k_cudaGetLastError ||
                               call.function == truth::Function::k_cudaPeekAtLastError;
    if (call.outermost && error != kSuccess && !reports_error) {
        t_state.last_error = error;
    }
    return error;
}

void run_hook(const Call &call) {
    if (g_hook != nullptr) {
        g_hook(truth::kFunctionNames[static_cast<std::size_t>(call.function)], g_hook_context);
    }
}

bool nesting() {
    static const bool enabled = [] {
        const char *value = std::getenv("STANDIN_NEST");
        return value != nullptr && std::strcmp(value, "1") == 0;
    }();
    return enabled;
}

}  // namespace standin

extern "C" STANDIN_EXPORT void standin_set_hook(standin::Hook hook, void *context) {
    standin::g_hook_context = context;
    standin::g_hook = hook;
}

extern "C" STANDIN_EXPORT void standin_reset_depth() {
    standin::t_state.depth = 0;
}
