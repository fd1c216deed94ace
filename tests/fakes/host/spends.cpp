// spends STEP...: spends its main thread's time in known states, one step after the other, and
// notes how long: of each step the wall time, less what the kernel's own account says that the
// thread ran or was ready.
//
//   name COMM           of the process
//   launch              launches a kernel: the thread is a launching one from now on
//   pin CPU             to this CPU
//   wait                prints its notes and "waiting K", K counted from 1, and waits for SIGUSR1
//   inside CALL         the next step happens inside of this call: launch, copy, copy_sync, set,
//                       allocate, synchronize, event
//   exec                prints its notes and becomes this program again, which does the steps that
//                       follow
//   crowd N MS          N threads, ten at a time, which launch, sleep so long, and end;
//                       "crowd LEAST MOST": the nanoseconds that they have lived since their
//                       launch, added up
//   turns N MS          two threads launch in turn, N times each, MS after the other's launch;
//                       "turns LEAST MOST": the nanoseconds between a launch and the one before,
//                       added up, but for each thread's first
//   hang                for ever
//
// In milliseconds:
//
//   burn MS, sleep MS, futex MS, poll MS, pipe MS, socket MS (by read), recv MS, terminal MS,
//   child MS, stop MS, event MS (an eventfd)
//   compete MS          runs for so long while two other processes want the same CPU
//   burn_wall MS        runs for so much wall time
//   delegate MS         waits for a thread that launches a kernel and then sleeps
//
// On a file PATH, which it makes:
//
//   read PATH MIB       cold
//   fault PATH PAGES    cold, through a mapping
//   sync PATH N         writes a byte and waits for the disk, N times
//
// The notes are lines: "spent PHASE STATE NANOSECONDS", and "wall NANOSECONDS" since the launch,
// with "ran" and "ready" by the kernel's account.

#include "host/notes.h"

#include "cudart/cudart.h"
#include "workload/kernels.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using spends::Notes;

Notes notes;
const char *phase = "host";

int number(const char *word) {
    return static_cast<int>(std::strtol(word, nullptr, 10));
}

void check(bool is_right, const char *what) {
    if (!is_right) {
        std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
        std::exit(1);
    }
}

void sleep_for(int ms) {
    timespec left{ms / 1000, (ms % 1000) * 1'000'000L};
    while (::nanosleep(&left, &left) != 0) {
    }
}

void burn(int ms) {
    for (const std::uint64_t end = spends::cpu_ns() + static_cast<std::uint64_t>(ms) * 1'000'000;
         spends::cpu_ns() < end;) {
    }
}

void burn_wall(int ms) {
    for (const std::uint64_t end = spends::wall_ns() + static_cast<std::uint64_t>(ms) * 1'000'000;
         spends::wall_ns() < end;) {
    }
}

void wait_on_futex(int ms) {
    std::uint32_t word = 0;
    const timespec limit{ms / 1000, (ms % 1000) * 1'000'000L};
    ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &limit, nullptr, 0);
}

// A thread that writes a byte after so long, or eight.
std::thread writes_later(int descriptor, int ms) {
    return std::thread([=] {
        sleep_for(ms);
        const std::uint64_t one = 1;
        check(::write(descriptor, &one, sizeof(one)) > 0, "write");
    });
}

// Blocks in `take` until the other end is written to.
void take_from(int from, int to, int ms, const std::function<ssize_t(int, void *)> &take) {
    std::thread writer = writes_later(to, ms);
    std::uint64_t byte = 0;
    check(take(from, &byte) > 0, "read");
    writer.join();
    ::close(from);
    if (to != from) {
        ::close(to);
    }
}

ssize_t read_it(int from, void *to) {
    return ::read(from, to, 8);
}
ssize_t receive_it(int from, void *to) {
    return ::recv(from, to, 8, 0);
}

void read_pipe(int ms) {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe");
    take_from(ends[0], ends[1], ms, read_it);
}

void read_socket(int ms, const std::function<ssize_t(int, void *)> &take) {
    std::array<int, 2> ends{};
    check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "socketpair");
    take_from(ends[0], ends[1], ms, take);
}

void read_terminal(int ms) {
    int master = -1;
    int terminal = -1;
    check(::openpty(&master, &terminal, nullptr, nullptr, nullptr) == 0, "openpty");
    std::thread writer([=] {
        sleep_for(ms);
        check(::write(master, "line\n", 5) == 5, "write");
    });
    std::array<char, 8> line{};
    check(::read(terminal, line.data(), line.size()) > 0, "read");
    writer.join();
    ::close(master);
    ::close(terminal);
}

void read_event(int ms) {
    const int event = ::eventfd(0, EFD_CLOEXEC);
    take_from(event, event, ms, read_it);
}

void wait_for_child(int ms) {
    const pid_t child = ::fork();
    if (child == 0) {
        sleep_for(ms);
        ::_exit(0);
    }
    check(::waitpid(child, nullptr, 0) == child, "waitpid");
}

void stop(int ms) {
    const pid_t self = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        sleep_for(ms);
        ::kill(self, SIGCONT);
        ::_exit(0);
    }
    ::kill(self, SIGSTOP);
    ::waitpid(child, nullptr, 0);
}

void compete(int ms) {
    std::array<pid_t, 2> others{};
    for (pid_t &other : others) {
        other = ::fork();
        if (other == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (true) {
            }
        }
    }
    burn_wall(ms);
    for (const pid_t other : others) {
        ::kill(other, SIGKILL);
        ::waitpid(other, nullptr, 0);
    }
}

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kPage = 4096;

// A file of so many bytes, none of which is in memory.
int cold_file(const char *path, std::size_t bytes) {
    const int file = ::open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(file >= 0, path);
    const std::vector<char> data(kMiB, 'x');
    for (std::size_t written = 0; written < bytes; written += kMiB) {
        check(::write(file, data.data(), data.size()) > 0, "write");
    }
    check(::fsync(file) == 0, "fsync");
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    return file;
}

class Spender {
public:
    Spender() {
        sigemptyset(&wake_);
        sigaddset(&wake_, SIGUSR1);
        sigprocmask(SIG_BLOCK, &wake_, nullptr);
    }

    // How many words a step has after its name; -1: there is no such step.
    int run(const std::string &step, char **words, int count);

private:
    using Step = std::function<void(int)>;

    void note(const char *state, int ms, const Step &step) {
        inside([&] { notes.spend(phase, state, [&] { step(ms); }); });
    }
    void inside(std::function<void()> step);
    void launch() {
        notes.begin();
        check(vector_add(), "launch");
    }
    static bool vector_add();
    void wait();
    void with_file(const std::string &step, const char *path, int amount);
    static void crowd(int threads, int ms);
    static void turns(int times, int ms);
    static void delegate(int ms);

    sigset_t wake_{};
    int waits_ = 0;
    std::string call_;
};

thread_local std::function<void()> *pending = nullptr;

// In the middle of the call.
void run_pending(const char * /*function*/, void * /*context*/) {
    if (pending != nullptr) {
        std::function<void()> *const step = std::exchange(pending, nullptr);
        (*step)();
    }
}

bool Spender::vector_add() {
    return cudaLaunchKernel(demo::kernel_stubs()[0].stub, {1, 1, 1}, {1, 1, 1}, nullptr, 0,
                            nullptr) == standin::kSuccess;
}

void Spender::inside(std::function<void()> step) {
    if (call_.empty()) {
        step();
        return;
    }
    static std::array<char, 16> host{};
    static void *device = nullptr;
    static standin::Event event = nullptr;
    if (device == nullptr) {
        check(cudaMalloc(&device, host.size()) == standin::kSuccess, "cudaMalloc");
        check(cudaEventCreate(&event) == standin::kSuccess, "cudaEventCreate");
    }
    const std::string call = std::exchange(call_, "");
    standin_set_hook(run_pending, nullptr);
    pending = &step;
    const auto in = [&](const char *name, auto &&function) {
        phase = name;
        check(function() == standin::kSuccess, call.c_str());
    };
    if (call == "launch") {
        in("launch", [] { return vector_add() ? standin::kSuccess : standin::kUnknown; });
    } else if (call == "set") {
        in("launch", [&] { return cudaMemset(device, 0, host.size()); });
    } else if (call == "copy") {
        in("copy", [&] {
            return cudaMemcpyAsync(device, host.data(), host.size(), standin::kHostToDevice,
                                   nullptr);
        });
    } else if (call == "copy_sync") {
        in("wait",
           [&] { return cudaMemcpy(device, host.data(), host.size(), standin::kHostToDevice); });
    } else if (call == "allocate") {
        in("memory", [] {
            void *more = nullptr;
            return cudaMalloc(&more, 1);
        });
    } else if (call == "synchronize") {
        in("wait", [] { return cudaDeviceSynchronize(); });
    } else if (call == "event") {
        in("wait", [] { return cudaEventSynchronize(event); });
    }
    check(pending == nullptr, "no such call");
    phase = "host";
    standin_set_hook(nullptr, nullptr);
}

void Spender::wait() {
    notes.print();
    std::printf("waiting %d\n", ++waits_);
    std::fflush(stdout);
    int signal = 0;
    sigwait(&wake_, &signal);
}

void Spender::with_file(const std::string &step, const char *path, int amount) {
    const bool is_fault = step == "fault";
    const std::size_t bytes = is_fault         ? static_cast<std::size_t>(amount) * kPage * 8
                              : step == "read" ? static_cast<std::size_t>(amount) * kMiB
                                               : kMiB;
    int file = -1;
    notes.spend(phase, "file", [&] { file = cold_file(path, bytes); });
    if (is_fault) {
        const auto *const memory = static_cast<const volatile char *>(
            ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0));
        ::madvise(const_cast<char *>(memory), bytes, MADV_RANDOM);
        note("page_fault", amount, [&](int pages) {
            for (int i = 0; i < pages; i++) {
                (void)memory[static_cast<std::size_t>(i) * kPage * 8];
            }
        });
        ::munmap(const_cast<char *>(memory), bytes);
    } else if (step == "read") {
        note("file", amount, [&](int mib) {
            std::vector<char> data(kMiB);
            for (int i = 0; i < mib; i++) {
                check(::pread(file, data.data(), kMiB, static_cast<off_t>(i) * 1'048'576) > 0,
                      "pread");
            }
        });
    } else {
        note("file", amount, [&](int times) {
            for (int i = 0; i < times; i++) {
                check(::pwrite(file, "a", 1, i) == 1 && ::fsync(file) == 0, "fsync");
            }
        });
    }
    notes.spend(phase, "file", [&] {
        ::close(file);
        ::unlink(path);
    });
}

void Spender::crowd(int threads, int ms) {
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    for (int begun = 0; begun < threads; begun += 10) {
        std::array<std::uint64_t, 10> began{};
        std::array<std::atomic<std::uint64_t>, 10> inner{};
        std::vector<std::thread> all;
        for (std::size_t i = 0; i < began.size(); i++) {
            all.emplace_back([&, i] {
                began[i] = spends::wall_ns();
                check(vector_add(), "launch");
                const std::uint64_t launched = spends::wall_ns();
                sleep_for(ms);
                inner[i] = spends::wall_ns() - launched;
            });
        }
        for (std::size_t i = 0; i < began.size(); i++) {
            all[i].join();
            least += inner[i];
            most += spends::wall_ns() - began[i];
        }
    }
    std::printf("crowd %llu %llu\n", static_cast<unsigned long long>(least),
                static_cast<unsigned long long>(most));
}

void Spender::turns(int times, int ms) {
    std::mutex mutex;
    std::condition_variable turned;
    int turn = 0;
    std::uint64_t before_last = 0;
    std::uint64_t after_last = 0;
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    const auto launches = [&](int self) {
        for (int i = 0; i < times; i++) {
            std::unique_lock lock(mutex);
            turned.wait(lock, [&] { return turn == self; });
            sleep_for(ms);
            const std::uint64_t before = spends::wall_ns();
            check(vector_add(), "launch");
            const std::uint64_t after = spends::wall_ns();
            if (i > 0) {
                least += before - after_last;
                most += after - before_last;
            }
            before_last = before;
            after_last = after;
            turn = 1 - self;
            turned.notify_all();
        }
    };
    std::thread other(launches, 1);
    launches(0);
    other.join();
    std::printf("turns %llu %llu\n", static_cast<unsigned long long>(least),
                static_cast<unsigned long long>(most));
}

void Spender::delegate(int ms) {
    std::thread([ms] {
        check(vector_add(), "launch");
        sleep_for(ms);
    }).join();
}

int Spender::run(const std::string &step, char **words, int count) {
    static const std::map<std::string, std::pair<const char *, Step>> timed = {
        {"burn", {"running", burn}},
        {"burn_wall", {"running", burn_wall}},
        {"compete", {"running", compete}},
        {"sleep", {"sleep", sleep_for}},
        {"futex", {"futex", wait_on_futex}},
        {"poll", {"poll", [](int ms) { ::poll(nullptr, 0, ms); }}},
        {"pipe", {"pipe", read_pipe}},
        {"socket", {"socket", [](int ms) { read_socket(ms, read_it); }}},
        {"recv", {"socket", [](int ms) { read_socket(ms, receive_it); }}},
        {"terminal", {"device", read_terminal}},
        {"event", {"other", read_event}},
        {"child", {"child", wait_for_child}},
        {"stop", {"stopped", stop}},
        {"delegate", {"futex", delegate}},
    };
    if (step == "launch") {
        launch();
        return 0;
    }
    if (step == "wait") {
        wait();
        return 0;
    }
    if (step == "hang") {
        while (true) {
            wait_on_futex(1'000'000);
        }
    }
    if (count < 1) {
        return -1;
    }
    if (const auto found = timed.find(step); found != timed.end()) {
        note(found->second.first, number(words[0]), found->second.second);
        return 1;
    }
    if (step == "name") {
        ::prctl(PR_SET_NAME, words[0]);
        return 1;
    }
    if (step == "inside") {
        call_ = words[0];
        return 1;
    }
    if (step == "pin") {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(static_cast<std::size_t>(number(words[0])), &cpus);
        check(::sched_setaffinity(0, sizeof(cpus), &cpus) == 0, "pin");
        return 1;
    }
    if (step == "turns" && count > 1) {
        turns(number(words[0]), number(words[1]));
        return 2;
    }
    if (step == "crowd" && count > 1) {
        crowd(number(words[0]), number(words[1]));
        return 2;
    }
    if ((step == "read" || step == "fault" || step == "sync") && count > 1) {
        with_file(step, words[0], number(words[1]));
        return 2;
    }
    return -1;
}

}  // namespace

int main(int argc, char **argv) {
    Spender spender;
    for (int at = 1; at < argc; ++at) {
        if (std::string(argv[at]) == "exec") {
            notes.print();
            std::fflush(stdout);
            argv[at] = argv[0];
            ::execv("/proc/self/exe", argv + at);
            return 1;
        }
        const int words = spender.run(argv[at], argv + at + 1, argc - at - 1);
        if (words < 0) {
            std::fprintf(stderr, "no such step: %s\n", argv[at]);
            return 2;
        }
        at += words;
    }
    return 0;
}
