#include "exporter/probes/syscall_families.h"

#include "bpf/syscall.h"

namespace gpusnoop::probes {

SyscallFamilies make_syscall_families(series::FamilySet &set) {
    return {
        .calls = set.counter("syscalls_total",
                             "System calls that have returned, of the processes that are traced.",
                             {{"syscall"}}),
        .errors = set.counter("syscall_errors_total",
                              "System calls that the kernel returned an error for, by its name.",
                              {{"syscall"}, {"errno"}}),
        .durations = set.histogram("syscall_duration_seconds",
                                   "Time inside each system call, calls that failed or only "
                                   "waited included.",
                                   {{"syscall"}}, SYSCALL_BOUNDS, 1e9),
    };
}

}  // namespace gpusnoop::probes
