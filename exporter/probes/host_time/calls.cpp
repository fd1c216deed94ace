#include "exporter/probes/host_time/calls.h"

#include <algorithm>
#include <array>
#include <utility>

#include "exporter/symbols/names/syscall_names.h"

namespace gpusnoop::probes {

namespace {

using Class = std::pair<std::uint8_t, std::span<const std::string_view>>;

constexpr std::string_view futex_calls[] = {"futex", "futex_wait", "futex_waitv", "futex_requeue"};
constexpr std::string_view poll_calls[] = {"poll",       "ppoll",       "select",      "pselect6",
                                           "epoll_wait", "epoll_pwait", "epoll_pwait2"};
constexpr std::string_view sleep_calls[] = {"nanosleep", "clock_nanosleep"};
constexpr std::string_view child_calls[] = {"wait4", "waitid"};
constexpr std::string_view io_uring_calls[] = {"io_uring_enter"};
constexpr std::string_view socket_calls[] = {"connect",  "accept",  "accept4", "sendto",
                                             "recvfrom", "sendmsg", "recvmsg", "sendmmsg",
                                             "recvmmsg", "shutdown"};
// On the file of a descriptor, which may be anything.
constexpr std::string_view descriptor_calls[] = {
    "read",      "write",     "readv",   "writev",    "pread64",
    "pwrite64",  "preadv",    "pwritev", "preadv2",   "pwritev2",
    "ioctl",     "sendfile",  "splice",  "tee",       "vmsplice",
    "fcntl",     "flock",     "fsync",   "fdatasync", "sync_file_range",
    "fallocate", "ftruncate", "lseek",   "fstat",     "copy_file_range",
    "readahead", "fadvise64"};
// On files and directories, whatever file system they are in.
constexpr std::string_view file_calls[] = {
    "open",     "openat",     "openat2",  "creat",      "close",     "stat",
    "lstat",    "newfstatat", "statx",    "access",     "faccessat", "faccessat2",
    "getdents", "getdents64", "rename",   "renameat",   "renameat2", "mkdir",
    "mkdirat",  "rmdir",      "link",     "linkat",     "unlink",    "unlinkat",
    "symlink",  "symlinkat",  "readlink", "readlinkat", "truncate",  "statfs",
    "fstatfs",  "chdir",      "fchdir",   "chmod",      "fchmod",    "fchmodat",
    "chown",    "lchown",     "fchown",   "fchownat",   "utimensat", "sync",
    "syncfs",   "execve",     "execveat", "getxattr",   "setxattr",  "name_to_handle_at"};
constexpr std::string_view memory_calls[] = {
    "mmap",    "munmap",          "mremap",        "mprotect",     "pkey_mprotect",
    "madvise", "process_madvise", "brk",           "mlock",        "mlock2",
    "munlock", "mlockall",        "munlockall",    "msync",        "mincore",
    "mbind",   "move_pages",      "migrate_pages", "set_mempolicy"};

constexpr std::array<Class, 9> all_classes = {{
    {HOST_STATE_futex, futex_calls},
    {HOST_STATE_poll, poll_calls},
    {HOST_STATE_sleep, sleep_calls},
    {HOST_STATE_child, child_calls},
    {HOST_STATE_io_uring, io_uring_calls},
    {HOST_STATE_socket, socket_calls},
    {HOST_BY_DESCRIPTOR, descriptor_calls},
    {HOST_STATE_file, file_calls},
    {HOST_STATE_memory, memory_calls},
}};

constexpr std::string_view phase_names[] = {
#define PHASE(name) #name,
    HOST_PHASES(PHASE)
#undef PHASE
};

constexpr std::string_view state_names[] = {
#define STATE(name) #name,
    HOST_STATES(STATE)
#undef STATE
};

constexpr std::string_view drain_names[] = {
#define DRAIN(name) #name,
    HOST_DRAINS(DRAIN)
#undef DRAIN
};

}  // namespace

void classify_system_calls(std::span<std::uint8_t, HOST_CALLS> classes) {
    std::ranges::fill(classes, std::uint8_t{HOST_STATE_other});
    for (const auto &[state, names] : all_classes) {
        for (const std::string_view name : names) {
            // A machine does not have all of them.
            if (const auto number = syscall_number(name); number && *number < HOST_CALLS) {
                classes[*number] = state;
            }
        }
    }
}

std::string_view host_phase_name(std::uint32_t phase) {
    return phase < std::size(phase_names) ? phase_names[phase] : "other";
}

std::string_view host_state_name(std::uint32_t state) {
    return state < std::size(state_names) ? state_names[state] : "other";
}

std::string_view host_drain_name(std::uint32_t drain) {
    return drain < std::size(drain_names) ? drain_names[drain] : "none";
}

std::string_view host_gap_state_name(std::uint32_t state) {
    return state == HOST_GAP_CUDA_CALL ? "cuda_call" : host_state_name(state);
}

namespace {

// From the kernel's include/uapi/linux/magic.h and the sources of its file systems, and for those
// that are not in it, from statfs(2) and from the names that stat(1) prints.
constexpr std::array<std::pair<std::uint32_t, std::string_view>, 21> filesystem_names = {{
    {0x00000000, "unknown"}, {0x0000ef53, "ext4"},  {0x58465342, "xfs"},      {0x9123683e, "btrfs"},
    {0x2fc12fc1, "zfs"},     {0xf2f52010, "f2fs"},  {0x73717368, "squashfs"}, {0x00006969, "nfs"},
    {0x0bd00bd0, "lustre"},  {0x47504653, "gpfs"},  {0x19830326, "beegfs"},   {0x00c36400, "ceph"},
    {0x65735546, "fuse"},    {0x01021997, "9p"},    {0xff534d42, "cifs"},     {0xfe534d42, "cifs"},
    {0x794c7630, "overlay"}, {0x01021994, "tmpfs"}, {0x62646576, "block"},    {0x00009fa0, "proc"},
    {0x62656572, "sysfs"},
}};

}  // namespace

std::string_view filesystem_name(std::uint32_t magic) {
    const auto *const found = std::ranges::find(filesystem_names, magic,
                                                &std::pair<std::uint32_t, std::string_view>::first);
    return found == filesystem_names.end() ? "other" : found->second;
}

}  // namespace gpusnoop::probes
