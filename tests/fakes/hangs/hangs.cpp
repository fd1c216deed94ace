// hangs [--threads N] [--depth N] [--only FUNCTION] [--name COMM]: makes a call in each of N
// threads (64), thread I of function I modulo 20, or all of one function, and keeps every call from
// returning until it is told to. With a depth (1), the call is inside of so many calls less one of
// calls_callback(). For each thread it prints
//
//   hang FUNCTION tid=N after=NS before=NS
//
// with the times of CLOCK_MONOTONIC between which the call began; then "hanging". SIGUSR1 lets the
// calls return, and it prints "returned" and waits for SIGTERM.

#include "calls/calls.h"
#include "calls/calls_cpp.h"
#include "cudart/cudart.h"
#include "driver/driver_api.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kBytes = 4096;

std::uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(now.tv_nsec);
}

void check(int error) {
    if (error != standin::kSuccess) {
        std::fprintf(stderr, "a call failed: %d\n", error);
        std::exit(1);
    }
}

// One thread's call, and when it began.
struct Hang {
    const char *function = "";
    pid_t tid = 0;
    std::uint64_t after_ns = 0;
    std::uint64_t before_ns = 0;  // set in the middle of the call
};

std::atomic<bool> is_armed = false;
std::atomic<unsigned> hanging = 0;
pthread_barrier_t release;
thread_local Hang *mine = nullptr;

// In the middle of the call. Only the call of run(), not what it makes on the way to it.
void hang_here() {
    if (mine == nullptr || !is_armed.load() || mine->before_ns != 0) {
        return;
    }
    mine->before_ns = now_ns();
    hanging++;
    pthread_barrier_wait(&release);
}

void hang_in_cuda(const char * /*function*/, void * /*context*/) {
    hang_here();
}

void hang_in_callback(void * /*argument*/) {
    hang_here();
}

// Memory that the call needs.
struct Memory {
    void *device = nullptr;
    void *other = nullptr;
    standin::DevicePointer address = 0;
    std::array<char, kBytes> host{};

    Memory() {
        check(cudaMalloc(&device, kBytes));
        check(cudaMalloc(&other, kBytes));
        check(standin::driver().cuMemAlloc_v2(&address, kBytes));
    }
};

struct Function {
    const char *name;  // as it is shown
    void (*call)(Memory &memory);
};

void *somewhere = nullptr;
standin::DevicePointer some_address = 0;

constexpr Function functions[] = {
    {"cudaMalloc", [](Memory &) { check(cudaMalloc(&somewhere, kBytes)); }},
    {"cudaMallocManaged", [](Memory &) { check(cudaMallocManaged(&somewhere, kBytes, 1)); }},
    {"cudaMallocHost", [](Memory &) { check(cudaMallocHost(&somewhere, kBytes)); }},
    {"cudaFree", [](Memory &memory) { check(cudaFree(memory.other)); }},
    {"cudaMemcpy",
     [](Memory &memory) {
         check(cudaMemcpy(memory.device, memory.host.data(), kBytes, standin::kHostToDevice));
     }},
    {"cudaMemcpyAsync",
     [](Memory &memory) {
         check(cudaMemcpyAsync(memory.device, memory.host.data(), kBytes, standin::kHostToDevice,
                               nullptr));
     }},
    {"cudaMemset", [](Memory &memory) { check(cudaMemset(memory.device, 1, kBytes)); }},
    {"cudaMemsetAsync",
     [](Memory &memory) { check(cudaMemsetAsync(memory.device, 1, kBytes, nullptr)); }},
    {"cudaMemcpy2D",
     [](Memory &memory) {
         check(cudaMemcpy2D(memory.device, 64, memory.host.data(), 64, 64, 8,
                            standin::kHostToDevice));
     }},
    {"cudaMemset2D", [](Memory &memory) { check(cudaMemset2D(memory.device, 64, 1, 64, 8)); }},
    {"cudaHostAlloc", [](Memory &) { check(cudaHostAlloc(&somewhere, kBytes, 0)); }},
    {"cuMemAlloc", [](Memory &) { check(standin::driver().cuMemAlloc_v2(&some_address, kBytes)); }},
    {"cuMemFree", [](Memory &memory) { check(standin::driver().cuMemFree_v2(memory.address)); }},
    {"cuMemcpyHtoD",
     [](Memory &memory) {
         check(standin::driver().cuMemcpyHtoD_v2(memory.address, memory.host.data(), kBytes));
     }},
    {"cuMemcpyDtoH",
     [](Memory &memory) {
         check(standin::driver().cuMemcpyDtoH_v2(memory.host.data(), memory.address, kBytes));
     }},
    {"cuMemcpyDtoD",
     [](Memory &memory) {
         check(standin::driver().cuMemcpyDtoD_v2(
             memory.address, reinterpret_cast<standin::DevicePointer>(memory.device), kBytes));
     }},
    {"cuMemsetD8",
     [](Memory &memory) { check(standin::driver().cuMemsetD8_v2(memory.address, 1, kBytes)); }},
    {"cuMemsetD32",
     [](Memory &memory) {
         check(standin::driver().cuMemsetD32_v2(memory.address, 1, kBytes / 4));
     }},
    {"calls_callback", [](Memory &) { calls_callback(hang_in_callback, nullptr); }},
    {"calls::callback", [](Memory &) { calls::callback(hang_in_callback, nullptr); }},
};
constexpr std::size_t kFunctions = sizeof(functions) / sizeof(*functions);
static_assert(kFunctions == 20);

// Ends the program if there is none.
const Function *function_of(const char *name) {
    for (const Function &function : functions) {
        if (std::strcmp(function.name, name) == 0) {
            return &function;
        }
    }
    std::_Exit(2);
}

// These are to be on the stack.
__attribute__((noinline)) void hang_in(const Function &function, Memory &memory) {
    function.call(memory);
    asm volatile("" ::: "memory");  // no tail call
}

// What is to be called inside of `around` calls of calls_callback().
struct Nested {
    unsigned around = 0;
    const Function *function = nullptr;
    Memory *memory = nullptr;
};

void hang_inside(void *nested) {
    auto &inside = *static_cast<Nested *>(nested);
    if (inside.around == 0) {
        hang_in(*inside.function, *inside.memory);
    } else {
        inside.around--;
        calls_callback(hang_inside, nested);
    }
}

void run(Hang &hang, const Function &function, unsigned depth, pthread_barrier_t &ready) {
    prctl(PR_SET_NAME, "hanging");
    Memory memory;
    hang.function = function.name;
    hang.tid = gettid();
    pthread_barrier_wait(&ready);
    mine = &hang;
    hang.after_ns = now_ns();
    Nested nested{depth - 1, &function, &memory};
    hang_inside(&nested);
    mine = nullptr;
}

}  // namespace

int main(int argc, char **argv) {
    unsigned threads = 64;
    unsigned depth = 1;
    const Function *only = nullptr;
    for (int at = 1; at + 1 < argc; at += 2) {
        if (std::strcmp(argv[at], "--threads") == 0) {
            threads = static_cast<unsigned>(std::strtoul(argv[at + 1], nullptr, 10));
        } else if (std::strcmp(argv[at], "--depth") == 0) {
            depth = std::max(1U, static_cast<unsigned>(std::strtoul(argv[at + 1], nullptr, 10)));
        } else if (std::strcmp(argv[at], "--only") == 0) {
            only = function_of(argv[at + 1]);
        } else if (std::strcmp(argv[at], "--name") == 0) {
            prctl(PR_SET_NAME, argv[at + 1]);
        } else {
            return 2;
        }
    }
    sigset_t signals{};
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    pthread_barrier_init(&release, nullptr, threads + 1);
    pthread_barrier_t ready{};
    pthread_barrier_init(&ready, nullptr, threads + 1);
    standin_set_hook(hang_in_cuda, nullptr);
    std::vector<Hang> hangs(threads);
    std::vector<std::jthread> running;
    for (unsigned i = 0; i < threads; ++i) {
        const Function *const function = only != nullptr ? only : &functions[i % kFunctions];
        running.emplace_back([&, i, function] { run(hangs[i], *function, depth, ready); });
    }
    is_armed = true;
    pthread_barrier_wait(&ready);
    while (hanging.load() < threads) {
        usleep(1000);
    }
    for (const Hang &hang : hangs) {
        std::printf("hang %s tid=%d after=%llu before=%llu\n", hang.function, hang.tid,
                    static_cast<unsigned long long>(hang.after_ns),
                    static_cast<unsigned long long>(hang.before_ns));
    }
    std::puts("hanging");
    std::fflush(stdout);
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGUSR1) {
        std::_Exit(0);  // inside the calls
    }
    pthread_barrier_wait(&release);
    running.clear();
    std::puts("returned");
    std::fflush(stdout);
    sigwait(&signals, &signal);
    return 0;
}
