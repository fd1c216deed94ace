#include "exporter/ebpf/filtered_child.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace gpusnoop::ebpf {

namespace {

bool filter_out(int system_call) {
    std::array<sock_filter, 4> code = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(system_call), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog program{.len = static_cast<unsigned short>(code.size()),
                             .filter = code.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Its crash must leave no core file and no report.
[[noreturn]] void work_alone(int system_call, void (*work)()) {
    const rlimit none{};
    ::setrlimit(RLIMIT_CORE, &none);
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
        ::signal(signal, SIG_DFL);
    }
    ::alarm(30);
    if (filter_out(system_call)) {
        work();
    }
    ::_exit(0);
}

}  // namespace

Result<> survives_without(int system_call, void (*work)()) {
    const pid_t child = ::fork();
    if (child < 0) {
        return fail_errno("start a process");
    }
    if (child == 0) {
        work_alone(system_call, work);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return fail_errno("wait for a process");
        }
    }
    if (WIFSIGNALED(status)) {
        return fail("ended by the signal " + std::to_string(WTERMSIG(status)) + " (" +
                    ::strsignal(WTERMSIG(status)) + ")");
    }
    return {};
}

}  // namespace gpusnoop::ebpf
