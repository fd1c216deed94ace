// The frame of every counted function: how deep the thread is in the library, and what the call
// ended with.

#pragma once

#include "truth.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "cudart/cudart.h"

#define STANDIN_EXPORT __attribute__((visibility("default"), noinline))

namespace standin {

struct LaunchConfiguration {
    Dim3 grid;
    Dim3 block;
    std::size_t shared_bytes = 0;
    Stream stream = nullptr;
};

struct ThreadState {
    std::uint32_t depth = 0;
    int last_error = kSuccess;
    int device = 0;
    bool allocated_before = false;
    // The function that is about to jump, not call, into the next one; see api_launch.cpp.
    truth::Function jumping_from = truth::Function::count;
    std::uint32_t pushed = 0;
    std::array<LaunchConfiguration, 16> configurations;
};

ThreadState &thread_state();

struct Call {
    truth::Function function;
    std::uint32_t
        image;  // goes up with every fork: a call can return in a child that never made it
    bool outermost;
};

// Not a constructor and destructor: an unwound call (pthread_exit) did not return, and must not be
// counted as if it had.
Call enter(truth::Function function);
int leave(const Call &call, int error);

// Whether what this call did belongs into the truth.
bool counts(const Call &call);

void run_hook(const Call &call);

// STANDIN_NEST=1: some functions call others through their public entry points.
bool nesting();

}  // namespace standin
