// How the libraries define the functions of their interfaces: each has an address of its own, and
// returns to its caller.

#pragma once

#include "truth.h"

// In the static runtime, as in the real one, they are hidden: local symbols of the program.
#ifdef STANDIN_STATIC
#define STANDIN_EXPORT __attribute__((visibility("hidden"), noinline))
#else
#define STANDIN_EXPORT __attribute__((visibility("default"), noinline))
#endif

// The name, the parameters in parentheses, and what it returns, in which `self` stands for it.
#define STANDIN_DEFINE(name, parameters, ...)                             \
    STANDIN_EXPORT int name parameters {                                  \
        [[maybe_unused]] constexpr auto self = truth::Function::k_##name; \
        return __VA_ARGS__;                                               \
    }

// For two functions that do the same.
#define STANDIN_DEFINE_BOTH(name, suffix, parameters, ...) \
    STANDIN_DEFINE(name, parameters, __VA_ARGS__)          \
    STANDIN_DEFINE(name##suffix, parameters, __VA_ARGS__)
