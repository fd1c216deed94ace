#include "exporter/symbols/names/syscall_names.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace gpusnoop {

namespace {

constexpr std::int32_t NONE = -1;

struct Syscall {
    std::string_view name;
    std::int32_t x86_64;
    std::int32_t arm64;

    [[nodiscard]] std::int32_t number(Machine machine) const {
        return machine == Machine::x86_64 ? x86_64 : arm64;
    }
};

#define SYSCALL(name, x86_64, arm64) Syscall{#name, x86_64, arm64},
constexpr Syscall syscalls[] = {
#include "generated/syscall_table.inc"  // by syscall_table.cmake
};
#undef SYSCALL

// The groups that the configuration can name. Some of their calls exist on one machine only.
constexpr std::pair<std::string_view, std::string_view> group_names[] = {
    {"file",
     "open close stat fstat lstat lseek access pipe dup dup2 fcntl flock truncate "
     "ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink "
     "symlink readlink chmod fchmod chown fchown lchown utime statfs fstatfs sync "
     "mount umount2 readahead getdents64 fadvise64 utimes inotify_init "
     "inotify_add_watch inotify_rm_watch openat mkdirat fchownat futimesat newfstatat "
     "unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat utimensat "
     "fallocate dup3 pipe2 inotify_init1 name_to_handle_at open_by_handle_at syncfs "
     "renameat2 statx close_range openat2 faccessat2 fchmodat2"},
    {"io",
     "read write ioctl pread64 pwrite64 readv writev sendfile fsync fdatasync io_setup "
     "io_destroy io_getevents io_submit io_cancel splice tee sync_file_range vmsplice "
     "preadv pwritev copy_file_range preadv2 pwritev2 io_pgetevents io_uring_setup "
     "io_uring_enter io_uring_register"},
    {"locking",
     "sched_yield semget semop semctl msgget msgsnd msgrcv msgctl futex semtimedop "
     "set_robust_list get_robust_list membarrier rseq futex_waitv futex_wake "
     "futex_wait futex_requeue"},
    {"memory",
     "mmap mprotect munmap brk mremap msync mincore madvise shmget shmat shmctl shmdt "
     "mlock munlock mlockall munlockall remap_file_pages mbind set_mempolicy "
     "get_mempolicy migrate_pages move_pages process_vm_readv process_vm_writev "
     "memfd_create userfaultfd mlock2 pkey_mprotect pkey_alloc pkey_free "
     "process_madvise memfd_secret process_mrelease set_mempolicy_home_node "
     "map_shadow_stack mseal"},
    {"network",
     "socket connect accept sendto recvfrom sendmsg recvmsg shutdown bind listen "
     "getsockname getpeername socketpair setsockopt getsockopt accept4 recvmmsg "
     "sendmmsg"},
    {"polling",
     "poll select epoll_create epoll_wait epoll_ctl pselect6 ppoll epoll_pwait "
     "signalfd timerfd_create eventfd timerfd_settime timerfd_gettime signalfd4 "
     "eventfd2 epoll_create1 epoll_pwait2"},
    {"process",
     "getpid clone fork vfork execve exit wait4 getrlimit getrusage ptrace setpgid "
     "getppid getpgrp setsid getpgid getsid getpriority setpriority sched_setparam "
     "sched_getparam sched_setscheduler sched_getscheduler prctl arch_prctl setrlimit "
     "gettid sched_setaffinity sched_getaffinity set_tid_address exit_group waitid "
     "unshare prlimit64 setns kcmp sched_setattr sched_getattr execveat pidfd_open "
     "clone3 pidfd_getfd"},
    {"signal",
     "rt_sigaction rt_sigprocmask rt_sigreturn pause kill rt_sigpending "
     "rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack tkill restart_syscall "
     "tgkill rt_tgsigqueueinfo pidfd_send_signal"},
    {"timing",
     "nanosleep getitimer alarm setitimer gettimeofday times adjtimex settimeofday "
     "time timer_create timer_settime timer_gettime timer_getoverrun timer_delete "
     "clock_settime clock_gettime clock_getres clock_nanosleep clock_adjtime"},
};

const Syscall *find(std::string_view name) {
    static const auto by_name = [] {
        std::unordered_map<std::string_view, const Syscall *> names;
        for (const Syscall &one : syscalls) {
            names.emplace(one.name, &one);
        }
        return names;
    }();
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
}

// include/linux/errno.h of the kernel: a program never sees these.
std::string_view kernel_errno_name(std::uint32_t number) {
    switch (number) {
        case 512:
            return "ERESTARTSYS";
        case 513:
            return "ERESTARTNOINTR";
        case 514:
            return "ERESTARTNOHAND";
        case 515:
            return "ENOIOCTLCMD";
        case 516:
            return "ERESTART_RESTARTBLOCK";
        case 524:
            return "ENOTSUPP";
        default:
            return "unknown";
    }
}

}  // namespace

Machine this_machine() {
#if defined(__aarch64__)
    return Machine::arm64;
#else
    return Machine::x86_64;
#endif
}

std::optional<std::string_view> syscall_name(std::uint32_t number, Machine machine) {
    const auto found = std::ranges::find_if(syscalls, [&](const Syscall &one) {
        return one.number(machine) == static_cast<std::int32_t>(number);
    });
    return found == std::end(syscalls) || number > 0x7fffffff ? std::nullopt
                                                              : std::optional(found->name);
}

std::optional<std::uint32_t> syscall_number(std::string_view name, Machine machine) {
    const Syscall *const one = find(name);
    return one == nullptr || one->number(machine) == NONE
               ? std::nullopt
               : std::optional(static_cast<std::uint32_t>(one->number(machine)));
}

bool is_syscall(std::string_view name) {
    return find(name) != nullptr;
}

const std::vector<std::string> &syscall_groups() {
    static const auto groups = [] {
        std::vector<std::string> all;
        for (const auto &[group, names] : group_names) {
            all.emplace_back(group);
        }
        return all;
    }();
    return groups;
}

std::vector<std::string_view> syscalls_of_group(std::string_view group) {
    std::vector<std::string_view> names;
    const auto found = std::ranges::find(group_names, group,
                                         &std::pair<std::string_view, std::string_view>::first);
    if (found == std::end(group_names)) {
        return names;
    }
    for (std::string_view rest = found->second; !rest.empty();) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        names.push_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return names;
}

std::string_view errno_name(std::uint32_t number) {
    const char *const name = number < 512 ? ::strerrorname_np(static_cast<int>(number)) : nullptr;
    return name != nullptr && number != 0 ? name : kernel_errno_name(number);
}

}  // namespace gpusnoop
