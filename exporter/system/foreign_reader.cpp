#include "exporter/system/foreign_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "exporter/system/foreign_reader_child.h"

namespace gpusnoop {

namespace {

// The children that may have copies of this process's descriptors. There is one table of
// descriptors for the process, so there is one of these.
class ChildrenWithCopies {
public:
    std::uint64_t add() {
        const std::lock_guard lock(mutex_);
        return *children_.insert(next_++).first;
    }
    void remove(std::uint64_t child) {
        const std::lock_guard lock(mutex_);
        children_.erase(child);
        changed_.notify_all();
    }
    void wait_for_earlier() {
        std::unique_lock lock(mutex_);
        const std::uint64_t later = next_;
        changed_.wait(lock, [&] { return children_.empty() || *children_.begin() >= later; });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t next_ = 0;
    std::set<std::uint64_t> children_;
};

ChildrenWithCopies &children_with_copies() {
    static ChildrenWithCopies children;
    return children;
}

class ChildWithCopies {
public:
    ChildWithCopies() : number_(children_with_copies().add()) {}
    ~ChildWithCopies() { children_with_copies().remove(number_); }
    ChildWithCopies(const ChildWithCopies &) = delete;
    ChildWithCopies &operator=(const ChildWithCopies &) = delete;

private:
    std::uint64_t number_;
};

}  // namespace

struct ForeignReader::Shared : reader::Shared {};

void ForeignReader::wait_until_copies_are_closed() {
    children_with_copies().wait_for_earlier();
}

Result<std::unique_ptr<ForeignReader>> ForeignReader::start(std::chrono::milliseconds most) {
    void *memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return fail_errno("map memory for a process that reads files");
    }
    auto *const shared = static_cast<Shared *>(memory);
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        const int code = errno;
        ::munmap(memory, sizeof(Shared));
        return fail_errno("make sockets for a process that reads files", code);
    }
    Fd ours(ends[0]);
    Fd its(ends[1]);
    const ChildWithCopies copies;
    const pid_t pid = ::fork();
    if (pid < 0) {
        const int code = errno;
        ::munmap(memory, sizeof(Shared));
        return fail_errno("start a process that reads files", code);
    }
    if (pid == 0) {
        reader::run(its.get(), *shared);
    }
    its = Fd();  // if the child ends, its end of the sockets is closed
    std::unique_ptr<ForeignReader> child(new ForeignReader(shared, std::move(ours), pid));
    const auto ready = child->wait(most);
    if (!ready || ready->error != 0) {
        return fail("start a process that reads files: it does not answer",
                    ready ? EPIPE : ETIMEDOUT);
    }
    return child;
}

ForeignReader::ForeignReader(Shared *shared, Fd socket, pid_t pid)
    : shared_(shared), socket_(std::move(socket)), pid_(pid) {}

ForeignReader::~ForeignReader() {
    // A child that is not stuck ends within milliseconds, and must not stay as a zombie.
    for (int i = 0; i < 20 && !end(); i++) {
        ::usleep(500);
    }
    ::munmap(shared_, sizeof(Shared));
}

bool ForeignReader::end() {
    if (!is_gone_) {
        ::kill(pid_, SIGKILL);
        const pid_t gone = ::waitpid(pid_, nullptr, WNOHANG);
        is_gone_ = gone == pid_ || (gone < 0 && errno == ECHILD);
    }
    return is_gone_;
}

Result<> ForeignReader::ask(std::uint32_t what, int fd) {
    shared_->what = what;
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (fd >= 0) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr *const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    }
    if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
        return fail_errno("ask the process that reads files");
    }
    return {};
}

Result<> ForeignReader::name(std::string_view root, std::string_view path) {
    if (root.size() >= sizeof(shared_->root) || path.size() >= sizeof(shared_->path)) {
        return fail_errno("open a file", ENAMETOOLONG);
    }
    shared_->root[root.copy(shared_->root, root.size())] = '\0';
    shared_->path[path.copy(shared_->path, path.size())] = '\0';
    return {};
}

Result<> ForeignReader::open(std::string_view root, std::string_view path, bool with_file_system) {
    if (auto named = name(root, path); !named) {
        return named;
    }
    shared_->with_file_system = with_file_system;
    return ask(reader::open_job);
}

Result<> ForeignReader::find(std::string_view root, std::string_view path) {
    const auto named = name(root, path);
    return named ? ask(reader::find_job) : named;
}

Result<> ForeignReader::open(int fd) {
    shared_->with_file_system = false;
    return ask(reader::open_again_job, fd);
}

Result<> ForeignReader::take() {
    return ask(reader::take_job);
}

Result<> ForeignReader::close() {
    return ask(reader::close_job);
}

Result<> ForeignReader::copy(Part part) {
    shared_->with_code = part == Part::symbols_and_code;
    shared_->is_text = part == Part::whole_text;
    return ask(reader::copy_job);
}

Result<> ForeignReader::read_memory(std::uint32_t tgid, std::uint64_t address, std::size_t size) {
    shared_->tgid = tgid;
    shared_->address = address;
    shared_->size = std::min(size, sizeof(shared_->buffer));
    return ask(reader::read_memory_job);
}

Result<> ForeignReader::read_link(std::string_view path) {
    const auto named = name("", path);
    return named ? ask(reader::read_link_job) : named;
}

Result<> ForeignReader::read_on(int fd) {
    return ask(reader::read_on_job, fd);
}

Result<> ForeignReader::open_proc(std::string_view path) {
    const auto named = name("", path);
    return named ? ask(reader::open_proc_job) : named;
}

Result<> ForeignReader::read_on() {
    return ask(reader::read_on_job);
}

std::optional<ForeignReader::Answer> ForeignReader::wait(std::chrono::milliseconds most) {
    const auto until = std::chrono::steady_clock::now() + most;
    pollfd readable{socket_.get(), POLLIN, 0};
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
        const int ready =
            ::poll(&readable, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        if (ready > 0) {
            break;
        }
        if (ready == 0 || errno != EINTR) {
            return std::nullopt;
        }
    }
    Answer answer{};
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1) {
        answer.error = EPIPE;
        return answer;
    }
    if (const cmsghdr *header = CMSG_FIRSTHDR(&message);
        header != nullptr && header->cmsg_type == SCM_RIGHTS) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
        answer.file = Fd(fd);
    }
    answer.error = shared_->error;
    answer.number = shared_->number;
    answer.bytes = shared_->bytes;
    answer.inode = shared_->inode;
    answer.device = shared_->device;
    answer.owner = shared_->owner;
    answer.file_system = shared_->file_system;
    answer.took = std::chrono::nanoseconds(shared_->took_ns);
    if (answer.error == 0 && shared_->has_file && !answer.file) {
        answer.error = EMFILE;  // this process has no free descriptor for it
    }
    return answer;
}

std::span<const std::byte> ForeignReader::buffer() const {
    return std::as_bytes(std::span(shared_->buffer));
}

std::uint64_t ForeignReader::progress() const {
    return shared_->progress.load(std::memory_order_relaxed);
}

}  // namespace gpusnoop
