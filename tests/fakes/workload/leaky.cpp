// leaky [--bytes N] [--times K] [--hold]: leaks device memory from three functions, K times from
// each: N bytes in leak_small, 10 N in leak_big, and N in leak_through_many_frames, which is kDeep
// calls deeper in the stack. Prints "leaked N 10*N N" for one time.

#include "workload/options.h"

#include "cudart/cudart.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// In no namespace, with plain names: a test looks for them in stacks.
#ifdef __clang__
#define FOR_STACKS __attribute__((noinline))
#else
#define FOR_STACKS __attribute__((noinline, noclone))
#endif

namespace {
constexpr int kDeep = 40;
volatile int g_done = 0;  // what comes after a call, so that none of them is a tail call
}  // namespace

FOR_STACKS void leak_small(std::size_t bytes) {
    void *memory = nullptr;
    cudaMalloc(&memory, bytes);
    g_done = g_done + 1;
}

FOR_STACKS void leak_big(std::size_t bytes) {
    void *memory = nullptr;
    cudaMalloc(&memory, bytes * 10);
    g_done = g_done + 1;
}

FOR_STACKS void leak_through_many_frames(std::size_t bytes, int deeper) {
    if (deeper != 0) {
        leak_through_many_frames(bytes, deeper - 1);
    } else {
        void *memory = nullptr;
        cudaMalloc(&memory, bytes);
    }
    g_done = g_done + 1;
}

int main(int argc, char **argv) {
    std::size_t bytes = 1000;
    long times = 1;
    // Its own two options; the others are everyone's.
    std::vector<char *> others = {argv[0]};
    for (int at = 1; at < argc; ++at) {
        const std::string flag = argv[at];
        if (flag == "--bytes" && at + 1 < argc) {
            bytes = std::strtoull(argv[++at], nullptr, 10);
        } else if (flag == "--times" && at + 1 < argc) {
            times = std::strtol(argv[++at], nullptr, 10);
        } else {
            others.push_back(argv[at]);
        }
    }
    const demo::Options options =
        demo::parse_options(static_cast<int>(others.size()), others.data());
    demo::prepare(options);
    for (long time = 0; time < times; ++time) {
        leak_small(bytes);
        leak_big(bytes);
        leak_through_many_frames(bytes, kDeep);
    }
    std::printf("leaked %zu %zu %zu\n", bytes, bytes * 10, bytes);
    std::fflush(stdout);
    if (options.hold) {
        demo::hold();
    }
    std::puts("done");
    return 0;
}
