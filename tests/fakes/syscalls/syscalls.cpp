// syscalls [--threads N] [--calls N] [--cuda LIBRARY] [--block]: makes system calls whose numbers
// are known, and that nothing else in a program makes. It sleeps until it gets SIGUSR1, does the
// round that the line "counted" ends, and sleeps until the next SIGUSR1, which ends it.
//
// A round: each thread makes N times getppid (succeeds), getpgid (ESRCH), dup (EBADF) and
// timer_delete (EINVAL), and N times a call that no machine has; on x86_64 the first thread makes N
// times getppid as a 32-bit program does, unless the machine forbids it, as some virtual ones do:
// "compat N" before the line "counted" says how many it has made.
//
// With --cuda it makes a CUDA call at first; before that, each call N times, which are not to be
// counted. Behind the round a child makes them too, without a CUDA call, and so does the program
// that the child becomes.
// With --block the round is another: each thread waits for a SIGRTMIN of its own, and then makes N
// times getppid.

#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

volatile sig_atomic_t g_signals = 0;
volatile sig_atomic_t g_compat_calls = 0;
volatile sig_atomic_t g_is_compat_forbidden = 0;

void on_signal(int /*number*/) {
    g_signals = g_signals + 1;
}

#if defined(__x86_64__)
// Goes on behind the two bytes of the instruction.
void on_forbidden(int /*number*/, siginfo_t * /*info*/, void *context) {
    g_is_compat_forbidden = 1;
    static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP] += 2;
}
#endif

struct Options {
    int threads = 1;
    int calls = 0;
    std::string cuda;
    bool block = false;
    bool again = false;  // the program that a child becomes: a round, and nothing else
};

void sleep_until_signal(int count) {
    while (g_signals < count) {
        const timespec moment{0, 5'000'000};
        ::clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, nullptr);
    }
}

void as_32_bit_program() {
#if defined(__x86_64__)
    if (g_is_compat_forbidden == 0) {
        long result = 64;  // getppid there
        asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
        g_compat_calls = g_compat_calls + (g_is_compat_forbidden == 0 ? 1 : 0);
    }
#endif
}

void round(int calls, bool first) {
    for (int i = 0; i < calls; i++) {
        ::syscall(SYS_getppid);
        ::syscall(SYS_getpgid, 0x3fffffff);
        ::syscall(SYS_dup, -1);
        ::syscall(SYS_timer_delete, 0x7fffff);
        ::syscall(100'000);
        if (first) {
            as_32_bit_program();
        }
    }
}

void on_threads(const Options &options) {
    std::vector<std::thread> threads;
    for (int i = 0; i < options.threads; i++) {
        threads.emplace_back([&options, i] { round(options.calls, i == 0); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

bool make_cuda_call(const std::string &library) {
    void *const handle = ::dlopen(library.c_str(), RTLD_NOW);
    if (handle == nullptr) {
        std::fprintf(stderr, "%s\n", ::dlerror());
        return false;
    }
    using Malloc = int (*)(void **, std::size_t);
    using Free = int (*)(void *);
    const auto allocate = reinterpret_cast<Malloc>(::dlsym(handle, "cudaMalloc"));
    const auto release = reinterpret_cast<Free>(::dlsym(handle, "cudaFree"));
    void *memory = nullptr;
    return allocate != nullptr && release != nullptr && allocate(&memory, 64) == 0 &&
           release(memory) == 0;
}

[[noreturn]] void in_child(const Options &options) {
    round(options.calls, false);
    const std::string calls = std::to_string(options.calls);
    ::execl("/proc/self/exe", "syscalls", "--again", "--calls", calls.c_str(), nullptr);
    ::_exit(1);
}

void block(const Options &options) {
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &awaited, nullptr);
    std::vector<std::thread> threads;
    for (int i = 0; i < options.threads; i++) {
        threads.emplace_back([&] {
            ::syscall(SYS_rt_sigtimedwait, &awaited, nullptr, nullptr, 8);
            for (int call = 0; call < options.calls; call++) {
                ::syscall(SYS_getppid);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

int run(const Options &options) {
    if (options.again) {
        round(options.calls, false);
        return 0;
    }
    struct sigaction action{};
    action.sa_handler = on_signal;
    ::sigaction(SIGUSR1, &action, nullptr);
#if defined(__x86_64__)
    struct sigaction forbidden{};
    forbidden.sa_sigaction = on_forbidden;
    forbidden.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &forbidden, nullptr);
#endif
    if (!options.cuda.empty()) {
        round(options.calls, false);
        if (!make_cuda_call(options.cuda)) {
            return 1;
        }
    }
    std::puts("waiting");
    std::fflush(stdout);
    sleep_until_signal(1);
    if (options.block) {
        block(options);
    } else {
        on_threads(options);
    }
    if (!options.cuda.empty()) {
        const pid_t child = ::fork();
        if (child == 0) {
            in_child(options);
        }
        int status = 0;
        if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) {
            return 1;
        }
    }
    std::printf("compat %d\ncounted\n", static_cast<int>(g_compat_calls));
    std::fflush(stdout);
    sleep_until_signal(2);
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        const char *const value = i + 1 < argc ? argv[i + 1] : "";
        if (name == "--block") {
            options.block = true;
        } else if (name == "--again") {
            options.again = true;
        } else if (name == "--threads") {
            options.threads = std::atoi(value), i++;
        } else if (name == "--calls") {
            options.calls = std::atoi(value), i++;
        } else if (name == "--cuda") {
            options.cuda = value, i++;
        } else {
            std::fprintf(stderr, "%s: not an option\n", name.c_str());
            return 2;
        }
    }
    return run(options);
}
