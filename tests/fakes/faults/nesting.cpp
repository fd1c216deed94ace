// A call within a call, and calls on more than one stack.

#include "faults/scenario.h"

#include <csignal>
#include <cstdint>

#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

namespace faults {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10U;

bool normal() {
    bool passed = true;
    for (int time = 0; time < 1000; ++time) {
        passed = allocate_and_free(64) && passed;
    }
    return passed;
}

thread_local int g_depth = 0;

template <int deepest>
void recurse() {
    if (++g_depth < deepest) {
        allocate_and_free(16);
    }
    --g_depth;
}

// Deeper than the 64 pending returns that a kernel keeps for a thread.
bool recursion() {
    on_every("cudaMalloc", recurse<100>);
    const bool passed = allocate_and_free(64);
    clear_actions();
    return passed && allocate_and_free(64);
}

bool recursion_shallow() {
    on_every("cudaMalloc", recurse<8>);
    const bool passed = allocate_and_free(64);
    clear_actions();
    return passed && allocate_and_free(64);
}

volatile std::sig_atomic_t g_handled = 0;
volatile std::uintptr_t g_handler_stack = 0;

void call_in_handler(int /*signal*/) {
    char here = 0;
    char copy = 1;
    g_handler_stack = reinterpret_cast<std::uintptr_t>(&here);
    if (cudaMemcpy(&copy, &here, 1, standin::kHostToHost) == standin::kSuccess && copy == 0) {
        g_handled = g_handled + 1;
    }
}

void raise_signal() {
    raise(SIGUSR1);
}

bool interrupted_call(int flags) {
    struct sigaction action{};
    action.sa_handler = call_in_handler;
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, nullptr);
    on_next("cudaMalloc", raise_signal);
    return allocate_and_free(64) && g_handled == 1 && allocate_and_free(64);
}

bool signal_in_call() {
    return interrupted_call(0);
}

// One mapping, half of it a thread's stack and half the stack of its signal handlers: an observer
// that orders calls by their stack addresses meets a nested one above the outer, or far below it.
template <bool above>
void *run_on_two_stacks(void *region) {
    const auto base = reinterpret_cast<std::uintptr_t>(region);
    stack_t handlers{};
    handlers.ss_sp = reinterpret_cast<void *>(base + (above ? kStackBytes : 0));
    handlers.ss_size = kStackBytes;
    sigaltstack(&handlers, nullptr);
    const char here = 0;
    const bool passed = interrupted_call(SA_ONSTACK) &&
                        above == (g_handler_stack > reinterpret_cast<std::uintptr_t>(&here));
    return passed ? region : nullptr;
}

template <bool above>
bool signal_on_other_stack() {
    void *region =
        mmap(nullptr, 2 * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED) {
        return false;
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    const auto base = reinterpret_cast<std::uintptr_t>(region);
    pthread_attr_setstack(&attributes, reinterpret_cast<void *>(base + (above ? 0 : kStackBytes)),
                          kStackBytes);
    pthread_t thread{};
    void *result = nullptr;
    return pthread_create(&thread, &attributes, run_on_two_stacks<above>, region) == 0 &&
           pthread_join(thread, &result) == 0 && result == region;
}

ucontext_t g_main_context;
ucontext_t g_fiber_context;
bool g_fiber_called = false;

void switch_away() {
    swapcontext(&g_fiber_context, &g_main_context);
}

void run_fiber() {
    g_fiber_called = allocate_and_free(64);
}

// A fiber is suspended inside a call while its thread makes another, on its own stack.
bool fiber() {
    static char stack[kStackBytes];
    getcontext(&g_fiber_context);
    g_fiber_context.uc_stack.ss_sp = stack;
    g_fiber_context.uc_stack.ss_size = sizeof stack;
    g_fiber_context.uc_link = &g_main_context;
    makecontext(&g_fiber_context, run_fiber, 0);
    on_next("cudaMalloc", switch_away);
    swapcontext(&g_main_context, &g_fiber_context);
    const bool called = allocate_and_free(32);
    swapcontext(&g_main_context, &g_fiber_context);
    return called && g_fiber_called;
}

}  // namespace

std::vector<Scenario> nesting_scenarios() {
    return {
        {"normal", normal},
        {"recursion", recursion},
        {"recursion_shallow", recursion_shallow},
        {"signal", signal_in_call},
        {"signal_stack_above", signal_on_other_stack<true>},
        {"signal_stack_below", signal_on_other_stack<false>},
        {"fiber", fiber, 0, true},
    };
}

}  // namespace faults
