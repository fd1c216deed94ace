#include "driver/call.h"

#include "driver/contexts.h"
#include "driver/graph_book.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/truth_writer.h"
#include "driver/virtual_memory.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include <pthread.h>

namespace standin {
namespace {

using truth::Function;

struct ThreadState {
    std::uint32_t depth = 0;
    std::uint64_t fallible_calls = 0;
    bool delegated = false;  // to the next call
    OnBehalf knowledge;
};

std::uint32_t g_image = 0;
Hook g_hook = nullptr;
void *g_hook_context = nullptr;
thread_local ThreadState t_state;

// A child must find no lock held by a thread that it does not have.
void before_fork() {
    lock_graphs_for_fork();
    lock_virtual_memory_for_fork();
    lock_memory_for_fork();
    lock_contexts_for_fork();
    lock_objects_for_fork();
    lock_truth_for_fork();
}

void unlock_after_fork() {
    unlock_truth_after_fork();
    unlock_objects_after_fork();
    unlock_contexts_after_fork();
    unlock_memory_after_fork();
    unlock_virtual_memory_after_fork();
    unlock_graphs_after_fork();
}

// The child's thread has returns ahead of it for calls that it never made, so its depth is zero.
void after_fork_in_child() {
    ++g_image;
    t_state = {};
    forget_truth_of_parent();
    unlock_after_fork();
}

__attribute__((constructor)) void watch_forks() {
    pthread_atfork(before_fork, unlock_after_fork, after_fork_in_child);
}

std::uint64_t fail_every() {
    static const std::uint64_t every = [] {
        const char *value = std::getenv("STANDIN_FAIL_EVERY");
        return value == nullptr ? 0 : std::strtoull(value, nullptr, 10);
    }();
    return every;
}

// The others return no error, or one that is not theirs; a launch configuration that was pushed has
// to be popped.
bool can_fail(Function function) {
    switch (function) {
        case Function::k___cudaPushCallConfiguration:
        case Function::k___cudaPopCallConfiguration:
        case Function::k_cudaGetLastError:
        case Function::k_cudaPeekAtLastError:
        case Function::k_cudaGetErrorString:
        case Function::k_cudaGetErrorName:
        case Function::k_cuGetErrorName:
            return false;
        default:
            return true;
    }
}

bool is_turn_to_fail(Function function) {
    const std::uint64_t every = fail_every();
    return every != 0 && can_fail(function) && ++t_state.fallible_calls % every == 0;
}

void delegate(const Call &call, const OnBehalf &knowledge) {
    if (counts(call)) {
        t_state.delegated = true;
        t_state.knowledge = knowledge;
    }
}

bool nesting() {
    static const bool enabled = [] {
        const char *value = std::getenv("STANDIN_NEST");
        return value != nullptr && std::strcmp(value, "1") == 0;
    }();
    return enabled;
}

void note_empty_allocation(const Call &call, truth::MemoryKind kind) {
    if (counts(call)) {
        count_empty_allocation(current_device(), kind);
    }
}

void note_empty_free(const Call &call) {
    if (counts(call)) {
        count_empty_free();
    }
}

void reset_depth() {
    t_state.depth = 0;
    t_state.delegated = false;
}

void set_hook(Hook hook, void *context) {
    g_hook_context = context;
    g_hook = hook;
}

int context_error() {
    return current_context().error;
}

constexpr Core kCore = {enter,           leave,         delegate,         run_hook,
                        nesting,         context_error, is_device_memory, note_empty_allocation,
                        note_empty_free, set_hook,      reset_depth};

}  // namespace

Call enter(Function function) {
    const bool outermost = t_state.depth++ == 0;
    const bool delegated = std::exchange(t_state.delegated, false);
    count_entry(function, outermost);
    Call call{function, g_image, outermost, outermost || delegated, false, {}, {}};
    if (outermost) {
        call.must_fail = is_turn_to_fail(function);
    } else if (delegated) {
        call.copy_kind = t_state.knowledge.copy_kind;
        call.bytes = t_state.knowledge.bytes;
    }
    return call;
}

bool counts(const Call &call) {
    return call.effective && call.image == g_image;
}

bool leave(const Call &call, int error) {
    if (call.image != g_image) {
        count_return_without_entry();
        return false;
    }
    count_result(call.function, call.outermost, error);
    --t_state.depth;
    return true;
}

void run_hook(const Call &call) {
    if (g_hook != nullptr) {
        g_hook(truth::kFunctionNames[static_cast<std::size_t>(call.function)], g_hook_context);
    }
}

}  // namespace standin

extern "C" STANDIN_EXPORT const standin::Core *standin_core(std::uint32_t version) {
    return version == standin::kCoreVersion ? &standin::kCore : nullptr;
}

extern "C" STANDIN_EXPORT void standin_set_hook(standin::Hook hook, void *context) {
    standin::set_hook(hook, context);
}

extern "C" STANDIN_EXPORT void standin_reset_depth() {
    standin::reset_depth();
}
