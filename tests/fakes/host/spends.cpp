// spends STEP...: spends its main thread's time in known states, one step after the other, and
// notes how long: of each step the wall time, less what the kernel's own account says that the
// thread ran or was ready.
//
//   name COMM           of the process
//   launch              launches a kernel: the thread is a launching one from now on
//   launches N          launches N kernels, one after the other
//   brief N US          N times: launches a kernel, waits for the device, and runs for so many
//                       microseconds
//   pin CPU             to this CPU
//   device N            chooses this CUDA device
//   realtime PRIORITY   the thread goes before all others from now on (SCHED_FIFO)
//   wait                prints its notes and "waiting K", K counted from 1, and waits for SIGUSR1
//   inside CALL         the next step happens inside of this call: launch, copy, copy_sync, set,
//                       allocate, synchronize, event
//   worker              the steps that follow happen in a child process, which has notes of its own
//                       that begin here; this process passes SIGUSR1 on to it
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
//   cold PATH PAGES     reads pages here and there, which are cold each time; the file has no name
//                       from its first step on
//
//   touch MIB PAGES     writes to pages here and there in so much memory, which it keeps
//
// The notes are lines: "spent PHASE STATE NANOSECONDS"; "waits PHASE STATE TIMES", how often the
// kernel says that the thread has waited in such a step, and of "all all" since the launch; and
// "wall NANOSECONDS" since the launch, with "ran" and "ready" by the kernel's account.

#include "host/crowds.h"
#include "host/notes.h"
#include "host/states.h"
#include "host/storage.h"

#include "cudart/cudart.h"
#include "workload/kernels.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using spends::check;
using spends::sleep_for;

spends::Notes notes;
const char *phase = "host";

int number(const char *word) {
    return static_cast<int>(std::strtol(word, nullptr, 10));
}

class Spender {
public:
    Spender() {
        sigemptyset(&wake_);
        sigaddset(&wake_, SIGUSR1);
        sigset_t blocked = wake_;
        sigaddset(&blocked, SIGCHLD);
        sigprocmask(SIG_BLOCK, &blocked, nullptr);
    }

    // How many words a step has after its name; -1: there is no such step.
    int run(const std::string &step, char **words, int count);

private:
    using Step = std::function<void(int)>;

    void note(const char *state, int ms, const Step &step) {
        inside([&] { notes.spend(phase, state, [&] { step(ms); }); });
    }
    void inside(std::function<void()> step);
    // The first one makes it a launching thread, whose time is counted from then on.
    void launch() {
        check(vector_add(), "launch");
        notes.begin();
    }
    static bool vector_add();
    static void launch_kernel() { check(vector_add(), "launch"); }
    void brief(int times, int us);
    void wait();
    void with_file(const std::string &step, const char *path, int amount);
    static void delegate(int ms);
    void work();

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

void Spender::brief(int times, int us) {
    for (int i = 0; i < times; i++) {
        launch();
        check(cudaDeviceSynchronize() == standin::kSuccess, "synchronize");
        spends::burn_us(us);
    }
}

void Spender::wait() {
    notes.print();
    std::printf("waiting %d\n", ++waits_);
    std::fflush(stdout);
    int signal = 0;
    sigwait(&wake_, &signal);
}

void Spender::with_file(const std::string &step, const char *path, int amount) {
    const std::size_t bytes = step == "fault"  ? spends::Mapping::bytes(amount)
                              : step == "read" ? static_cast<std::size_t>(amount) * spends::kMiB
                                               : spends::kMiB;
    int file = -1;
    notes.spend(phase, "file", [&] { file = spends::cold_file(path, bytes); });
    if (step == "fault") {
        const spends::Mapping mapping(file, amount);
        note("page_fault", amount, [&](int pages) { mapping.touch(pages); });
    } else if (step == "read") {
        note("file", amount, [&](int mib) { spends::read_through(file, mib); });
    } else {
        note("file", amount, [&](int times) { spends::write_through(file, times); });
    }
    notes.spend(phase, "file", [&] {
        ::close(file);
        ::unlink(path);
    });
}

void Spender::delegate(int ms) {
    std::thread([ms] {
        check(vector_add(), "launch");
        sleep_for(ms);
    }).join();
}

void Spender::work() {
    std::fflush(stdout);
    const pid_t child = ::fork();
    check(child >= 0, "fork");
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        notes.restart();
        return;
    }
    sigset_t signals = wake_;
    sigaddset(&signals, SIGCHLD);
    for (int signal = SIGUSR1; signal == SIGUSR1;) {
        sigwait(&signals, &signal);
        if (signal == SIGUSR1) {
            ::kill(child, SIGUSR1);
        }
    }
    int status = 0;
    check(::waitpid(child, &status, 0) == child, "wait for the worker");
    std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}

int Spender::run(const std::string &step, char **words, int count) {
    static const std::map<std::string, std::pair<const char *, Step>> timed = {
        {"burn", {"running", spends::burn}},
        {"burn_wall", {"running", spends::burn_wall}},
        {"compete", {"running", spends::compete}},
        {"sleep", {"sleep", sleep_for}},
        {"futex", {"futex", spends::wait_on_futex}},
        {"poll", {"poll", [](int ms) { ::poll(nullptr, 0, ms); }}},
        {"pipe", {"pipe", spends::read_pipe}},
        {"socket", {"socket", spends::read_socket}},
        {"recv", {"socket", spends::receive}},
        {"terminal", {"device", spends::read_terminal}},
        {"event", {"other", spends::read_event}},
        {"child", {"child", spends::wait_for_child}},
        {"stop", {"stopped", spends::stop}},
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
    if (step == "worker") {
        work();
        return 0;
    }
    if (step == "hang") {
        while (true) {
            spends::wait_on_futex(1'000'000);
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
    if (step == "launches") {
        for (int i = 0; i < number(words[0]); i++) {
            launch();
        }
        return 1;
    }
    if (step == "brief" && count > 1) {
        brief(number(words[0]), number(words[1]));
        return 2;
    }
    if (step == "pin") {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(static_cast<std::size_t>(number(words[0])), &cpus);
        check(::sched_setaffinity(0, sizeof(cpus), &cpus) == 0, "pin");
        return 1;
    }
    if (step == "realtime") {
        const sched_param how = {.sched_priority = number(words[0])};
        check(::sched_setscheduler(0, SCHED_FIFO, &how) == 0, "sched_setscheduler");
        return 1;
    }
    if (step == "device") {
        check(cudaSetDevice(number(words[0])) == standin::kSuccess, "cudaSetDevice");
        return 1;
    }
    if (step == "turns" && count > 1) {
        spends::turns(number(words[0]), number(words[1]), launch_kernel);
        return 2;
    }
    if (step == "crowd" && count > 1) {
        spends::crowd(number(words[0]), number(words[1]), launch_kernel);
        return 2;
    }
    if (step == "cold" && count > 1) {
        note("file", number(words[1]), [&](int pages) { spends::read_cold(words[0], pages); });
        return 2;
    }
    if (step == "touch" && count > 1) {
        note("page_fault", number(words[1]),
             [&](int pages) { spends::touch_memory(number(words[0]), pages); });
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
