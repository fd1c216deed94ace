// refused NAME HOLD ALLOCATED ASK [--fraction]
// Allocates HOLD bytes with cudaMalloc, prints "waits", and waits for SIGUSR1. Then it does what
// PyTorch's allocator does that holds HOLD, has given out ALLOCATED of them and is asked for ASK:
// cudaMalloc fails, and once more when the cache is freed, then it reads how much is free and
// reports that it refuses. With --fraction it refuses by a limit of its own, without asking CUDA.
// Prints "refused" and waits again.
#include <signal.h>
#include <sys/prctl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "c10.h"
#include "cudart/cudart.h"

namespace {

void wait_for_signal(const char *says) {
    std::puts(says);
    std::fflush(stdout);
    sigset_t wake;
    sigemptyset(&wake);
    sigaddset(&wake, SIGUSR1);
    int signal = 0;
    sigwait(&wake, &signal);
}

void check(int error, int expected) {
    if (error != expected) {
        std::fprintf(stderr, "error %d instead of %d\n", error, expected);
        std::exit(1);
    }
}

}  // namespace

int main(int argc, char **argv) {
    if (argc < 5) {
        return 2;
    }
    sigset_t wake;
    sigemptyset(&wake);
    sigaddset(&wake, SIGUSR1);
    sigprocmask(SIG_BLOCK, &wake, nullptr);
    prctl(PR_SET_NAME, argv[1]);
    const std::size_t hold = std::strtoull(argv[2], nullptr, 10);
    const std::size_t allocated = std::strtoull(argv[3], nullptr, 10);
    const std::size_t ask = std::strtoull(argv[4], nullptr, 10);
    void *memory = nullptr;
    check(cudaMalloc(&memory, hold), standin::kSuccess);
    wait_for_signal("waits");
    if (argc == 5) {
        check(cudaMalloc(&memory, ask), standin::kMemoryAllocation);
        check(cudaMalloc(&memory, ask), standin::kMemoryAllocation);
    }
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), standin::kSuccess);
    c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(ask), allocated, hold,
                                     {c10::DeviceType::cuda, 0});
    wait_for_signal("refused");
    return 0;
}
