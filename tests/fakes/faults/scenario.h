// The fault lab: calls that are left, entered or shared in every way that a program can find.

#pragma once

#include <string>
#include <vector>

#include "cudart/cudart.h"

namespace faults {

struct Scenario {
    const char *name;
    // Returns whether all went as it should; some do not return.
    bool (*run)();
    int exit_code = 0;  // 128 + the signal's number when it dies of one
    // Untraced it always passes, but a return probe on the function kills it or changes its result:
    // the kernel has replaced a return address that the program itself looks for.
    bool breaks_under_return_probes = false;
};

std::vector<Scenario> leaving_scenarios();
std::vector<Scenario> nesting_scenarios();
std::vector<Scenario> process_scenarios();
std::vector<Scenario> thread_scenarios();

// Runs in the middle of the next call to `function` only, on whichever thread makes it.
void on_next(const char *function, void (*action)());
// Runs in the middle of each call to `function` until cleared.
void on_every(const char *function, void (*action)());
void clear_actions();

// An allocation of `bytes` that is freed again: two calls that succeed.
bool allocate_and_free(std::size_t bytes);

// For a scenario whose end main will not see.
void announce(const char *scenario);

// Runs this program again with one argument; returns only when that fails.
void execute_self(const char *argument);

}  // namespace faults
