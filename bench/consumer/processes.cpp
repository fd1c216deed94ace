#include "bench/consumer/processes.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace gpusnoop::bench {

Processes::~Processes() {
    for (const pid_t process : all_) {
        ::kill(process, SIGKILL);
        ::waitpid(process, nullptr, 0);
    }
}

Result<Processes> Processes::start(std::size_t count) {
    Processes processes;
    while (processes.all_.size() < count) {
        const pid_t process = ::fork();
        if (process < 0) {
            return fail_errno("make a process");
        }
        if (process == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) {
                ::pause();
            }
        }
        processes.all_.push_back(process);
    }
    return processes;
}

std::vector<pid_t> Processes::first(std::size_t count) const {
    return {all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(count)};
}

Result<Cpus> choose_cpus() {
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof(set), &set) != 0) {
        return fail_errno("ask for the CPUs of this thread");
    }
    Cpus cpus{-1, -1};
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            cpus.writer = cpus.writer < 0 ? cpu : cpus.writer;
            cpus.consumer = cpu;
        }
    }
    return cpus;
}

Result<> move_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return ::sched_setaffinity(0, sizeof(set), &set) == 0 ? Result<>{}
                                                          : fail_errno("move a thread to a CPU");
}

}  // namespace gpusnoop::bench
