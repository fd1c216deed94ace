// The frame of every counted function of the driver.

#pragma once

#include "define.h"
#include "driver/core.h"

namespace standin {

Call enter(truth::Function function);
bool leave(const Call &call, int error);

// Whether what this call does belongs into the truth, here and now.
bool counts(const Call &call);

void run_hook(const Call &call);

template <typename Action>
int call(truth::Function function, Action &&action) {
    const Call open = enter(function);
    const int error = open.must_fail ? static_cast<int>(kUnknown) : action(open);
    leave(open, error);
    return error;
}

}  // namespace standin
