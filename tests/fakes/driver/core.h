// What the stand-in libraries of one process share, and the driver library owns: how deep each
// thread is in calls, and the truth. The runtimes reach it through standin_core().

#pragma once

#include "cuda_types.h"
#include "truth.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace standin {

// One counted call. Not a class that ends the call in its destructor: an unwound call
// (pthread_exit) did not return, and must not be counted as if it had.
struct Call {
    truth::Function function;
    // Goes up with every fork: a call can return in a child that never made it.
    std::uint32_t image;
    bool outermost;
    // What the call does belongs into the truth: it is outermost, or made on behalf of one that is.
    bool effective;
    // STANDIN_FAIL_EVERY: it has to fail with kUnknown, and to do nothing.
    bool must_fail;
    // What the outermost call knows better.
    std::optional<truth::CopyKind> copy_kind;
    std::optional<std::uint64_t> bytes;
};

struct OnBehalf {
    std::optional<truth::CopyKind> copy_kind;
    std::optional<std::uint64_t> bytes;
};

struct Core {
    Call (*enter)(truth::Function function);
    // False when the call was entered in the parent of a fork.
    bool (*leave)(const Call &call, int error);
    // The calling thread's next call of the driver does what `call` is for, and its effect is the
    // effect of `call`. Does nothing if `call` itself is not effective.
    void (*delegate)(const Call &call, const OnBehalf &knowledge);
    void (*run_hook)(const Call &call);
    // STANDIN_NEST=1: some functions call others through their public entry points.
    bool (*nesting)();
    // kSuccess when the calling thread has a current context, else why it has none.
    int (*context_error)();
    bool (*is_device_memory)(const void *pointer);
    void (*count_empty_allocation)(const Call &call, truth::MemoryKind kind);
    void (*count_empty_free)(const Call &call);
    void (*set_hook)(Hook hook, void *context);
    void (*reset_depth)();
};

inline constexpr std::uint32_t kCoreVersion = 1;

}  // namespace standin

extern "C" {
// nullptr when the driver library is of another version.
const standin::Core *standin_core(std::uint32_t version);

// Called in the middle of every call, nested or not, that allocates, frees, copies, sets or
// launches: the arguments are checked, nothing is done or counted yet, no lock is held. (In the
// middle of a call for the time between two events, it has been given and counted.) The hook
// may leave the call in any way. One hook for the whole process; set it while no other thread makes
// calls.
void standin_set_hook(standin::Hook hook, void *context);

// The time from any event to this one is this value from now on: what a driver would never give.
void standin_set_elapsed(standin::Event end, float milliseconds);

// Says that the calling thread has no open call any more, because it left them with longjmp.
void standin_reset_depth();
}
