#include "exporter/system/system_call_filter.h"

#include <seccomp.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

namespace gpusnoop {

namespace {

constexpr std::array names = {
    // Other programs and processes. The exporter reads other processes from /proc.
    "execve", "execveat", "process_vm_writev", "pidfd_getfd", "process_madvise", "kcmp",
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    "ptrace",  // the leak sanitizer stops its own threads by it
#endif
    // Mounts, namespaces and roots.
    "mount", "umount2", "mount_setattr", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount",
    "fspick", "pivot_root", "chroot", "setns", "unshare", "open_by_handle_at", "swapon", "swapoff",
    "quotactl", "quotactl_fd",
    // The kernel and the machine.
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname", "setdomainname",
    "syslog", "acct", "iopl", "ioperm", "modify_ldt", "vhangup",
    // Other ways to the refused calls, and large parts of the kernel that the exporter does not
    // use.
    "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "personality",
    "add_key", "request_key", "keyctl", "fanotify_init", "landlock_restrict_self", "memfd_secret"};

struct Release {
    void operator()(void *filter) const { ::seccomp_release(filter); }
};

}  // namespace

std::span<const char *const> refused_system_calls() {
    return names;
}

Result<> refuse_system_calls() {
    const std::unique_ptr<void, Release> filter(::seccomp_init(SCMP_ACT_ALLOW));
    if (!filter) {
        return fail("make a filter of system calls: out of memory");
    }
    // Set by keep_capabilities(), if capabilities had to be given up.
    (void)::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_NNP, 1);
    // A tree, because each system call of the process passes through it.
    (void)::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
    for (const char *name : names) {
        const int number = ::seccomp_syscall_resolve_name(name);
        if (number == __NR_SCMP_ERROR || number < 0) {
            continue;  // unknown to libseccomp, or not on this architecture
        }
        if (const int error = ::seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), number, 0);
            error != 0) {
            return fail_errno(std::string("refuse ") + name, -error);
        }
    }
    if (const int error = ::seccomp_load(filter.get()); error != 0) {
        return fail_errno("load the filter of system calls", -error);
    }
    return {};
}

}  // namespace gpusnoop
