// Burns CPU in two functions, or touches memory in one, for the tests of profiles:
//
//   stacks burn MS      in burn_one() and burn_three(), together so long, in turns of random
//   lengths stacks touch PAGES  each page for the first time, in touch_pages()
//
// It prints "waiting" and waits for SIGUSR1 before and after that, and says what it has done:
// "one NS" and "three NS" of CPU time, or "pages N".
#include "host/states.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

namespace {

std::uint64_t cpu_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
}

void spin(unsigned rounds) {
    for (volatile unsigned i = 0; i < rounds; i = i + 1) {
    }
}

void wait(const sigset_t &signals) {
    std::printf("waiting\n");
    std::fflush(stdout);
    int signal = 0;
    ::sigwait(&signals, &signal);
}

}  // namespace

extern "C" {

[[gnu::noinline]] std::uint64_t burn_one(unsigned rounds) {
    const std::uint64_t began = cpu_ns();
    spin(rounds);
    return cpu_ns() - began;
}

[[gnu::noinline]] std::uint64_t burn_three(unsigned rounds) {
    const std::uint64_t began = cpu_ns();
    spin(3 * rounds);
    return cpu_ns() - began;
}

[[gnu::noinline]] void touch_pages(volatile char *memory, std::size_t pages, std::size_t size) {
    for (std::size_t i = 0; i < pages; i++) {
        memory[i * size] = 1;
    }
}
}

namespace {

void burn(std::uint64_t ns) {
    std::minstd_rand random(1);
    std::uint64_t one = 0;
    std::uint64_t three = 0;
    while (one + three < ns) {
        const auto rounds = static_cast<unsigned>(random() % 20'000);
        one += burn_one(rounds);
        three += burn_three(rounds);
    }
    std::printf("one %llu\nthree %llu\n", static_cast<unsigned long long>(one),
                static_cast<unsigned long long>(three));
}

void touch(std::size_t pages) {
    const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void *const memory =
        ::mmap(nullptr, pages * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    spends::check(memory != MAP_FAILED, "mmap");
    ::madvise(memory, pages * size, MADV_NOHUGEPAGE);
    touch_pages(static_cast<volatile char *>(memory), pages, size);
    std::printf("pages %zu\n", pages);
}

}  // namespace

int main(int count, char **words) {
    if (count != 3) {
        return 2;
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    const unsigned long amount = std::strtoul(words[2], nullptr, 10);
    wait(signals);
    if (std::strcmp(words[1], "burn") == 0) {
        burn(amount * 1'000'000);
    } else {
        touch(amount);
    }
    wait(signals);
    return 0;
}
