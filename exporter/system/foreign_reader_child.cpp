#include "exporter/system/foreign_reader_child.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "bpf/processes/mappings.h"
#include "exporter/system/descriptor_message.h"
#include "exporter/system/file_keeper.h"

namespace gpusnoop::reader {
namespace {

// The child's state between two questions: one open file at most.
struct Open {
    int path = -1;  // names the file
    int file = -1;  // reads it
    void *mapped = MAP_FAILED;
    std::uint64_t bytes = 0;
};

constexpr std::size_t mapped_job = 1;

void close_all(Open &open) {
    if (open.mapped != MAP_FAILED) {
        ::munmap(open.mapped, mapped_job);
    }
    if (open.file >= 0) {
        ::close(open.file);
    }
    if (open.path >= 0) {
        ::close(open.path);
    }
    open = Open();
}

int open_path(const Shared &shared, int flags) {
    if (shared.root[0] == '\0') {
        return ::open(shared.path, flags | O_PATH | O_CLOEXEC);
    }
    const int root = ::open(shared.root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return -1;
    }
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags | O_PATH | O_CLOEXEC);
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    const auto found =
        static_cast<int>(::syscall(SYS_openat2, root, shared.path, &how, sizeof(how)));
    const int code = errno;
    ::close(root);
    errno = code;
    return found;
}

// "/proc/self/fd/<fd>"
void path_of(int fd, char *text) {
    std::memcpy(text, "/proc/self/fd/", 14);
    char digits[12];
    int count = 0;
    do {
        digits[count++] = static_cast<char>('0' + fd % 10);
        fd /= 10;
    } while (fd > 0);
    for (int i = 0; i < count; i++) {
        text[14 + i] = digits[count - 1 - i];
    }
    text[14 + count] = '\0';
}

// Opens the file that `open.path` names, if it is a regular file: opening a device or a pipe has
// effects, and a process can map any file.
int open_file(Open &open, Shared &shared) {
    struct stat status{};
    if (::fstat(open.path, &status) != 0) {
        return errno;
    }
    if (!S_ISREG(status.st_mode)) {
        return EINVAL;
    }
    shared.bytes = open.bytes = static_cast<std::uint64_t>(status.st_size);
    shared.inode = status.st_ino;
    shared.owner = status.st_uid;
    shared.device = static_cast<std::uint32_t>((major(status.st_dev) << 20) | minor(status.st_dev));
    char path[32];
    path_of(open.path, path);
    open.file = ::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (open.file < 0) {
        return errno;
    }
    open.mapped = ::mmap(nullptr, mapped_job, PROT_READ | PROT_EXEC, MAP_PRIVATE, open.file, 0);
    shared.number = open.mapped == MAP_FAILED ? 0 : reinterpret_cast<std::uint64_t>(open.mapped);
    return 0;
}

int make_copy(Open &open, Shared &shared, int &copy) {
    if (open.file < 0) {
        return EBADF;
    }
    copy = static_cast<int>(::syscall(SYS_memfd_create, "library", MFD_CLOEXEC));
    if (copy < 0) {
        return errno;
    }
    const int error = shared.is_text
                          ? copy_text(open.file, open.bytes, copy, shared)
                          : copy_elf(open.file, open.bytes, copy, shared.with_code, shared);
    // Closing can wait, too: the kernel notifies the file system.
    close_all(open);
    return error;
}

int got(ssize_t bytes, Shared &shared) {
    if (bytes < 0) {
        return errno;
    }
    shared.number = static_cast<std::uint64_t>(bytes);
    return 0;
}

int read_memory(Shared &shared) {
    iovec local{shared.buffer, shared.size};
    iovec remote{reinterpret_cast<void *>(shared.address), shared.size};
    return got(::process_vm_readv(static_cast<pid_t>(shared.tgid), &local, 1, &remote, 1, 0),
               shared);
}

int find(const Shared &shared) {
    const int found = open_path(shared, O_NOFOLLOW);
    if (found < 0) {
        return errno;
    }
    ::close(found);
    return 0;
}

int open_proc(Open &open, const Shared &shared) {
    open.file = ::open(shared.path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return open.file < 0 ? errno : 0;
}

// Without a descriptor, from the file that was opened last.
int read_on(int fd, const Open &open, Shared &shared) {
    const int error =
        got(::read(fd >= 0 ? fd : open.file, shared.buffer, sizeof(shared.buffer)), shared);
    if (fd >= 0) {
        ::close(fd);
    }
    return error;
}

std::int64_t now(clockid_t clock = CLOCK_MONOTONIC) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int read_link(Shared &shared) {
    auto *const text = reinterpret_cast<char *>(shared.buffer);
    return got(::readlink(shared.path, text, sizeof(shared.buffer)), shared);
}

constexpr std::byte a_byte{};

// The descriptor that comes with the question, or -1. Ends the child when the parent ends.
int next_question(int socket) {
    std::byte byte{};
    int fd = -1;
    if (receive_message(socket, {&byte, 1}, {&fd, 1}) != 1) {
        ::_exit(0);
    }
    return fd;
}

void answer(int socket, int fd) {
    if (!send_message(socket, {&a_byte, 1}, {&fd, 1})) {
        ::_exit(0);
    }
}

void keep_only(int descriptor) {
    close_between(0, descriptor - 1);
    (void)::syscall(SYS_close_range, static_cast<unsigned>(descriptor + 1), ~0U, 0U);
}

// Does what the question asks, which sets shared.error, and returns the descriptor to send with the
// answer, or -1. `copy` is one that is to be closed then.
int work(std::uint32_t what, int given, Open &open, Shared &shared, int &copy) {
    int sent = -1;
    switch (what) {
        case open_job:
        case open_again_job:
            close_all(open);
            open.path = what == open_job ? open_path(shared, 0) : given;
            shared.error = open.path < 0 ? errno : open_file(open, shared);
            if (shared.error != 0) {
                close_all(open);
            }
            sent = open.path;
            break;
        case take_job:
            shared.error = open.file < 0 ? EBADF : 0;
            sent = open.file;
            break;
        case copy_job:
            shared.error = make_copy(open, shared, copy);
            sent = copy;
            break;
        case close_job:
            close_all(open);
            break;
        case read_memory_job:
            shared.error = read_memory(shared);
            break;
        case read_on_job:
            shared.error = read_on(given, open, shared);
            break;
        case read_link_job:
            shared.error = read_link(shared);
            break;
        case find_job:
            shared.error = find(shared);
            break;
        case open_proc_job:
            close_all(open);
            shared.error = open_proc(open, shared);
            break;
        default:
            shared.error = ENOSYS;
            break;
    }
    return shared.error == 0 ? sent : -1;
}

[[noreturn]] void run(int socket, Shared &shared) {
    keep_only(socket);
    answer(socket, -1);  // ForeignReader::start() waits for it
    Open open;
    for (;;) {
        const int given = next_question(socket);
        const std::uint32_t what = shared.what;  // the next question overwrites it after the answer
        const std::int64_t began = now();
        const std::int64_t ran_before = now(CLOCK_PROCESS_CPUTIME_ID);
        shared.error = 0;
        shared.number = 0;
        int copy = -1;
        const int sent = work(what, given, open, shared, copy);
        shared.has_file = sent >= 0;
        shared.took_ns = now() - began;
        shared.ran_ns = now(CLOCK_PROCESS_CPUTIME_ID) - ran_before;
        answer(socket, sent);
        if (copy >= 0) {
            ::close(copy);
        }
        if (what == take_job) {
            close_all(open);
        }
    }
}

// Its children end when their sockets' other ends are closed. With SIGCHLD ignored, this returns
// when all of them have.
[[noreturn]] void end_after_children() {
    constexpr unsigned longest_s = 2;
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGALRM);
    ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(longest_s);
    ::waitpid(-1, nullptr, 0);
    ::_exit(0);
}

}  // namespace

pid_t fork_with_descriptor(int &process) {
    return static_cast<pid_t>(
        ::syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, nullptr, &process, nullptr, nullptr));
}

void close_between(int first, int last) {
    if (first <= last) {
        (void)::syscall(SYS_close_range, static_cast<unsigned>(first), static_cast<unsigned>(last),
                        0U);
    }
}

void fork_children(int socket) {
    keep_only(socket);
    ::prctl(PR_SET_NAME, FOREIGN_READER);
    ::signal(SIGCHLD, SIG_IGN);  // children leave no zombies
    answer(socket, -1);
    for (;;) {
        ForkRequest request{};
        int given[2] = {-1, -1};
        if (receive_message(socket, std::as_writable_bytes(std::span(&request, 1)), given) !=
            sizeof(request)) {
            end_after_children();
        }
        int process = -1;
        Forked forked{};
        forked.pid = fork_with_descriptor(process);
        if (forked.pid == 0) {
            (void)::setpriority(PRIO_PROCESS, 0, request.niceness);
            if (request.kind == Child::keeper) {
                keep_only(given[0]);
                keep_files(given[0]);
            }
            void *const shared =
                ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, given[0], 0);
            if (shared == MAP_FAILED) {
                ::_exit(1);
            }
            run(given[1], *static_cast<Shared *>(shared));
        }
        forked.error = forked.pid < 0 ? errno : 0;
        if (!send_message(socket, std::as_bytes(std::span(&forked, 1)), {&process, 1})) {
            end_after_children();
        }
        for (const int descriptor : {given[0], given[1], process}) {
            if (descriptor >= 0) {
                ::close(descriptor);
            }
        }
    }
}

}  // namespace gpusnoop::reader
