// What a thread has spent its time on, by its own clocks and by the kernel's account of it.

#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace spends {

inline std::uint64_t read_clock(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(now.tv_nsec);
}

inline std::uint64_t wall_ns() {
    return read_clock(CLOCK_MONOTONIC);
}
inline std::uint64_t cpu_ns() {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

// The kernel's own account of the thread.
struct Schedule {
    unsigned long long ran_ns = 0;
    unsigned long long ready_ns = 0;  // how long it has waited for a CPU
};

inline Schedule schedule() {
    const std::string path =
        "/proc/self/task/" + std::to_string(::syscall(SYS_gettid)) + "/schedstat";
    Schedule now;
    if (std::FILE *const file = std::fopen(path.c_str(), "r")) {
        if (std::fscanf(file, "%llu %llu", &now.ran_ns, &now.ready_ns) != 2) {
            now = {};
        }
        std::fclose(file);
    }
    return now;
}

// What the hypervisor has kept from all CPUs. The thread's CPU time is without it, its wall time is
// not. Read in hundredths of a second: proc(5).
inline std::uint64_t stolen_ns() {
    unsigned long long ticks = 0;
    if (std::FILE *const file = std::fopen("/proc/stat", "r")) {
        if (std::fscanf(file, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1) {
            ticks = 0;
        }
        std::fclose(file);
    }
    return ticks * 10'000'000U;
}

// How often the thread has left the CPU as it waited for something.
inline std::uint64_t waits() {
    rusage used{};
    ::getrusage(RUSAGE_THREAD, &used);
    return static_cast<std::uint64_t>(used.ru_nvcsw);
}

class Notes {
public:
    // Forgets what was before, the first time.
    void begin() {
        if (began_ns_ == 0) {
            restart();
        }
    }
    void restart() {
        began_ns_ = wall_ns();
        before_ = schedule();
        waits_before_ = waits();
        stolen_before_ = stolen_ns();
        spent_.clear();
        waits_.clear();
    }

    // The step's time in `state` is what is left of its wall time.
    void spend(const char *phase, const char *state, const std::function<void()> &step) {
        const std::uint64_t waited_before = waits();
        const std::uint64_t ready = schedule().ready_ns;
        const std::uint64_t wall = wall_ns();
        const std::uint64_t cpu = cpu_ns();
        step();
        const std::uint64_t on_cpu = cpu_ns() - cpu;
        const std::uint64_t all = wall_ns() - wall;
        const std::uint64_t waited = schedule().ready_ns - ready;
        waits_[{phase, state}] += waits() - waited_before;
        spent_[{phase, "running"}] += on_cpu;
        spent_[{phase, "runnable"}] += waited;
        if (all > on_cpu + waited && std::string(state) != "running") {
            spent_[{phase, state}] += all - on_cpu - waited;
        }
    }

    void print() const {
        for (const auto &[where, ns] : spent_) {
            std::printf("spent %s %s %llu\n", where.first.c_str(), where.second.c_str(),
                        static_cast<unsigned long long>(ns));
        }
        for (const auto &[where, times] : waits_) {
            std::printf("waits %s %s %llu\n", where.first.c_str(), where.second.c_str(),
                        static_cast<unsigned long long>(times));
        }
        if (began_ns_ != 0) {
            std::printf("waits all all %llu\n",
                        static_cast<unsigned long long>(waits() - waits_before_));
            const Schedule now = schedule();
            std::printf("wall %llu\nran %llu\nready %llu\nstolen %llu\n",
                        static_cast<unsigned long long>(wall_ns() - began_ns_),
                        now.ran_ns - before_.ran_ns, now.ready_ns - before_.ready_ns,
                        static_cast<unsigned long long>(stolen_ns() - stolen_before_));
        }
    }

private:
    std::uint64_t began_ns_ = 0;
    Schedule before_;
    std::uint64_t waits_before_ = 0;
    std::uint64_t stolen_before_ = 0;
    std::map<std::pair<std::string, std::string>, std::uint64_t> spent_, waits_;
};

}  // namespace spends
