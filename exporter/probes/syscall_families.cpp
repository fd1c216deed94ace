#include "exporter/probes/syscall_families.h"

#include "bpf/syscall.h"

namespace gpusnoop::probes {

SyscallFamilies make_syscall_families(const Budget &budget, bool pid_label) {
    const FamilyMaker maker(budget, pid_label);
    return {
        .calls = maker.counter("syscalls_total",
                               "System calls that have returned, of the processes that are traced.",
                               {{"syscall"}}),
        .errors = maker.counter("syscall_errors_total",
                                "System calls that the kernel returned an error for, by its name.",
                                {{"syscall"}, {"errno"}}),
        .durations = maker.histogram("syscall_duration_seconds",
                                     "Time inside each system call, calls that failed or only "
                                     "waited included.",
                                     {{"syscall"}}, SYSCALL_BOUNDS, 1e9),
    };
}

std::vector<series::Family *> SyscallFamilies::all() {
    return {&calls, &errors, &durations};
}

}  // namespace gpusnoop::probes
