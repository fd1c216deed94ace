// What the program `calls` can do. Each returns whether every call had the result it should have.
#pragma once

#include <cstdint>
#include <vector>

namespace scenario {

struct Options {
    unsigned threads = 1;
    std::uint64_t iterations = 1000;  // of each thread
    std::uint64_t seed = 1;
    bool until_stopped = false;  // mix, mix_with_leaving and dear_and_rare: until SIGTERM, instead
};

struct Scenario {
    const char *name;
    bool (*run)(const Options &options);
    int exit_code = 0;  // 128 + the signal's number when it dies of one
    // "fragile": a return probe kills the program (an exception passes through a C function, or
    // the kernel's own system call at the return is refused).
    // "lossy": more calls are inside each other than the kernel has return probes for.
    const char *remark = "";
};

// Calls of random functions in random ways: those that return, or some that do not as well.
bool mix(const Options &options);
bool mix_with_leaving(const Options &options);
// Many calls of one function beside few of others, at two paces.
bool dear_and_rare(const Options &options);
std::vector<Scenario> leaving_scenarios();
// A few calls that sleep, among many that do not, and a line for each of the few:
//   slow NAME thread=COMM 1=N 2=N 3=N 4=N 5=N
bool sleep_now_and_then(const Options &options);
std::vector<Scenario> all_scenarios();

// Leaves the C and the C++ function with a callback by longjmp(), out of another call inside.
bool jump_out_of_calls();

// The lines of the truth, as they are now. For scenarios whose end main() will not see.
void print_truth();
void announce(const char *scenario);

}  // namespace scenario
