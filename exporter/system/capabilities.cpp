#include "exporter/system/capabilities.h"

#include <seccomp.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <iterator>
#include <memory>
#include <type_traits>

namespace gpusnoop {

namespace {

using State =
    std::unique_ptr<std::remove_pointer_t<cap_t>, decltype([](cap_t state) { ::cap_free(state); })>;

bool is_set(const State &state, Capability capability, cap_flag_t flag) {
    cap_flag_value_t value = CAP_CLEAR;
    return state && ::cap_get_flag(state.get(), capability, flag, &value) == 0 && value == CAP_SET;
}

bool contains(std::span<const Capability> all, Capability one) {
    return std::ranges::find(all, one) != all.end();
}

}  // namespace

std::string capability_name(Capability capability) {
    const std::unique_ptr<char, decltype([](char *name) { ::cap_free(name); })> name(
        ::cap_to_name(static_cast<cap_value_t>(capability)));
    std::string text = name ? name.get() : "capability " + std::to_string(capability);
    std::ranges::transform(text, text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return text;
}

bool holds_capability(Capability capability) {
    return is_set(State(::cap_get_proc()), capability, CAP_EFFECTIVE);
}

bool has_capability(Capability capability) {
    const bool is_part_of_admin =
        capability == CAP_BPF || capability == CAP_PERFMON || capability == CAP_CHECKPOINT_RESTORE;
    return holds_capability(capability) || (is_part_of_admin && holds_capability(CAP_SYS_ADMIN));
}

std::string capability_names(std::span<const Capability> capabilities) {
    std::string names;
    for (std::size_t i = 0; i < capabilities.size(); i++) {
        if (i > 0) {
            names += i + 1 == capabilities.size() ? " and " : ", ";
        }
        names += capability_name(capabilities[i]);
    }
    return names;
}

std::vector<Capability> missing_capabilities(std::span<const Capability> wanted) {
    std::vector<Capability> missing;
    std::ranges::copy_if(wanted, std::back_inserter(missing),
                         [](Capability one) { return !has_capability(one); });
    return missing;
}

std::string missing_for(int code, std::span<const Capability> wanted) {
    if (code != EPERM && code != EACCES) {
        return "";
    }
    const auto missing = missing_capabilities(wanted);
    if (missing.empty()) {
        return "";
    }
    return " (" + capability_names(missing) + (missing.size() == 1 ? " is" : " are") + " missing)";
}

Result<std::vector<Capability>> keep_capabilities(std::span<const Capability> wanted) {
    const State before(::cap_get_proc());
    const State after(::cap_init());
    if (!before || !after) {
        return fail_errno("read the capabilities");
    }
    std::vector<Capability> given_up;
    const int end = static_cast<int>(::cap_max_bits());
    for (Capability one = 0; one < end; one++) {
        const bool is_kept = contains(wanted, one);
        if (is_set(before, one, CAP_PERMITTED)) {
            if (is_kept) {
                const std::array<cap_value_t, 1> list = {one};
                ::cap_set_flag(after.get(), CAP_PERMITTED, 1, list.data(), CAP_SET);
                ::cap_set_flag(after.get(), CAP_EFFECTIVE, 1, list.data(), CAP_SET);
            } else {
                given_up.push_back(one);
            }
        }
        // Only root may do this. Other users cannot regain a capability that they gave up: see
        // below.
        if (!is_kept) {
            ::cap_drop_bound(one);
        }
    }
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return fail_errno("rule out new privileges");
    }
    if (::cap_set_proc(after.get()) != 0) {
        return fail_errno("give up capabilities");
    }
    return given_up;
}

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
