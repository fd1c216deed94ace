// Burns CPU in two functions, or touches memory in one, for the tests of profiles:
//
//   stacks burn MS      in burn_one() and burn_three(), together so long, in turns of random
//                       lengths
//   stacks made MS      so long in code that it makes at run time, and calls "made_loop" in
//                       /tmp/perf-PID.map, which it removes at its end
//   stacks touch PAGES  each page for the first time, in touch_pages()
//   stacks keep BLOCKS  allocates that many blocks in each of four threads by every function of the
//                       allocator, of 1,000 to 9,999 bytes, and frees some of them: what stays is
//                       from keep_blocks() or, moved by realloc(), from grow_blocks()
//
// It prints "waiting" and waits for SIGUSR1 before and after that, and says what it has done:
// "one NS" and "three NS" of CPU time, "made NS", "pages N" and "faults N", as the kernel counted
// them meanwhile, or "kept_blocks N", "kept_bytes N", "grown_blocks N" and "grown_bytes N".
#include "host/states.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

namespace {

std::uint64_t cpu_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
}

long faults() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

void spin(unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) {
        asm volatile("" : : "r"(i));
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

struct Kept {
    std::vector<std::pair<void *, std::size_t>> blocks;  // from keep_blocks()
    std::vector<std::pair<void *, std::size_t>> grown;   // from grow_blocks()
};

void *allocate(unsigned way, std::size_t bytes) {
    void *block = nullptr;
    switch (way % 5) {
        case 0:
            return std::malloc(bytes);
        case 1:
            return std::calloc(bytes, 1);
        case 2:
            return ::posix_memalign(&block, 64, bytes) == 0 ? block : nullptr;
        case 3:
            return std::aligned_alloc(64, bytes);
        default:
            return std::realloc(nullptr, bytes);
    }
}

}  // namespace

extern "C" {

[[gnu::noinline]] void keep_blocks(Kept *kept, std::size_t blocks, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < blocks; i++) {
        const std::size_t bytes = 1'000 + random() % 9'000;
        void *const block = allocate(static_cast<unsigned>(i), bytes);
        spends::check(block != nullptr, "malloc");
        if (random() % 3 == 0) {
            std::free(block);
        } else {
            kept->blocks.emplace_back(block, bytes);
        }
        // Too small to be counted, by the tests' choice.
        std::free(std::malloc(16));
    }
}

// Every other one moves; that no realloc() gives so much memory changes nothing.
[[gnu::noinline]] void grow_blocks(Kept *kept) {
    std::vector<std::pair<void *, std::size_t>> stay;
    for (std::size_t i = 0; i < kept->blocks.size(); i++) {
        auto [block, bytes] = kept->blocks[i];
        volatile std::size_t too_much = SIZE_MAX / 2;
        spends::check(std::realloc(block, too_much) == nullptr, "a realloc of half of all memory");
        if (i % 2 == 0) {
            bytes *= 3;
            kept->grown.emplace_back(std::realloc(block, bytes), bytes);
        } else {
            stay.emplace_back(block, bytes);
        }
    }
    kept->blocks = stay;
}
}

namespace {

void keep(std::size_t blocks) {
    constexpr unsigned count = 4;
    // What vectors take is not counted.
    std::vector<Kept> kept(count);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; i++) {
        kept[i].blocks.reserve(blocks);
        kept[i].grown.reserve(blocks);
    }
    for (unsigned i = 0; i < count; i++) {
        threads.emplace_back([&kept, blocks, i] {
            keep_blocks(&kept[i], blocks, i + 1);
            grow_blocks(&kept[i]);
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    std::size_t sums[4] = {};
    for (const Kept &of : kept) {
        sums[0] += of.blocks.size();
        sums[2] += of.grown.size();
        for (const auto &[block, bytes] : of.blocks) {
            sums[1] += bytes;
        }
        for (const auto &[block, bytes] : of.grown) {
            sums[3] += bytes;
        }
    }
    std::printf("kept_blocks %zu\nkept_bytes %zu\ngrown_blocks %zu\ngrown_bytes %zu\n", sums[0],
                sums[1], sums[2], sums[3]);
}

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

// A loop of so many rounds as its argument says, with a frame of its own.
#if defined(__x86_64__)
constexpr unsigned char made_code[] = {
    0x55,              // push %rbp
    0x48, 0x89, 0xe5,  // mov %rsp, %rbp
    0x48, 0xff, 0xcf,  // dec %rdi
    0x75, 0xfb,        // jne to the line before
    0x5d,              // pop %rbp
    0xc3,              // ret
};
#else
constexpr std::uint32_t made_code[] = {
    0xa9bf7bfd,  // stp x29, x30, [sp, #-16]!
    0x910003fd,  // mov x29, sp
    0xf1000400,  // subs x0, x0, #1
    0x54ffffe1,  // b.ne to the line before
    0xa8c17bfd,  // ldp x29, x30, [sp], #16
    0xd65f03c0,  // ret
};
#endif

using MadeFunction = void (*)(std::uint64_t);

MadeFunction make_code() {
    const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void *const memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    spends::check(memory != MAP_FAILED, "mmap");
    std::memcpy(memory, made_code, sizeof(made_code));
    ::mprotect(memory, size, PROT_READ | PROT_EXEC);
    __builtin___clear_cache(static_cast<char *>(memory),
                            static_cast<char *>(memory) + sizeof(made_code));
    return reinterpret_cast<MadeFunction>(memory);
}

void burn_made(std::uint64_t ns) {
    const MadeFunction made = make_code();
    const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
    std::FILE *const map = std::fopen(path.c_str(), "w");
    spends::check(map != nullptr, "fopen");
    std::fprintf(map, "%lx %zx made_loop\n", reinterpret_cast<unsigned long>(made),
                 sizeof(made_code));
    std::fclose(map);
    std::uint64_t spent = 0;
    while (spent < ns) {
        const std::uint64_t began = cpu_ns();
        made(1'000'000);
        spent += cpu_ns() - began;
    }
    std::printf("made %llu\n", static_cast<unsigned long long>(spent));
}

void touch(std::size_t pages) {
    const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void *const memory =
        ::mmap(nullptr, pages * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    spends::check(memory != MAP_FAILED, "mmap");
    ::madvise(memory, pages * size, MADV_NOHUGEPAGE);
    const long before = faults();
    touch_pages(static_cast<volatile char *>(memory), pages, size);
    const long after = faults();
    std::printf("pages %zu\nfaults %ld\n", pages, after - before);
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
    } else if (std::strcmp(words[1], "made") == 0) {
        burn_made(amount * 1'000'000);
    } else if (std::strcmp(words[1], "keep") == 0) {
        keep(amount);
    } else {
        touch(amount);
    }
    wait(signals);
    ::unlink(("/tmp/perf-" + std::to_string(::getpid()) + ".map").c_str());
    return 0;
}
