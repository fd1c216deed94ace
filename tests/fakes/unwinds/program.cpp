// unwinds TIMES: prints "waiting", waits for SIGUSR1, then makes TIMES calls that panic, each
// before one that returns. Prints "done, caught N", and sleeps until it is killed.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "unwinds/unwinds.h"

int main(int argc, char **argv) {
    if (argc != 2) {
        return 2;
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    std::puts("waiting");
    std::fflush(stdout);
    int received = 0;
    sigwait(&set, &received);
    const long times = std::atol(argv[1]);
    long sum = 0;
    long caught = 0;
    for (long i = 0; i < times; ++i) {
        try {
            sum += unwinds_call(i, 1);
        } catch (...) {
            ++caught;
        }
        sum += unwinds_call(i, 0);
    }
    std::printf("done, caught %ld, sum %ld\n", caught, sum);
    std::fflush(stdout);
    for (;;) {
        ::pause();
    }
}
