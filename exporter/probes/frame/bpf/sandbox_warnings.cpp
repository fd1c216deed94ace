#include "exporter/probes/frame/bpf/sandbox_warnings.h"

#include "bpf/lib/processes/process.h"
#include "exporter/base/log.h"

namespace gpusnoop::probes {

namespace {

const char *name_of(std::uint32_t system_calls) {
    if ((system_calls & SYSTEM_CALLS_DISPATCHED) != 0) {
        return "syscall user dispatch";
    }
    return (system_calls & SYSTEM_CALLS_EMULATED) != 0 ? "a tracer (PTRACE_SYSEMU)"
                                                       : "a tracer (PTRACE_SYSCALL)";
}

}  // namespace

void SandboxWarnings::look(const ProcessIdentity &process) {
    if (process.system_calls == 0 || said_.size() >= max_names ||
        !said_.insert(process.comm).second) {
        return;
    }
    log::warn(
        "system calls of a program are handled by something other than the kernel: if that does "
        "not know the system call uretprobe (x86_64, Linux 6.11 and later), return probes kill "
        "the program; \"endings: exits\" avoids them (docs/reliability.md)",
        {{"probe", probe_},
         {"pid", process.key.tgid},
         {"comm", process.comm},
         {"handled_by", name_of(process.system_calls)}});
}

}  // namespace gpusnoop::probes
