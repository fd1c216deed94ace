#include "exporter/system/file_keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "exporter/system/descriptor_message.h"
#include "exporter/system/foreign_reader_child.h"
#include "exporter/system/forking_process.h"

namespace gpusnoop {

namespace {

enum class Keep : std::uint32_t {
    parent,  // the descriptor is of the process that has the files open
    begin,   // the descriptor is of a file
    end,
};

struct KeepMessage {
    Keep what;
    std::uint32_t user;
    std::uint64_t key;
};

}  // namespace

namespace reader {
namespace {

// Closing has time.
constexpr int closing_niceness = 10;
// After a child could not be started.
constexpr int before_next_child_ms = 100;

struct KeptFile {
    std::uint64_t key;  // 0: the descriptor is of no file
    std::uint32_t user;
    bool is_closing;
};

// By descriptor. Too many for a stack.
std::array<KeptFile, 65'536> kept_files;

class KeptFiles {
public:
    [[noreturn]] void keep(int socket) {
        for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
            ::signal(signal, SIG_IGN);  // it ends with its parent
        }
        bool goes_on = true;
        while (goes_on) {
            wait(socket);
            goes_on = take_messages(socket);
            forget_ended_closers();
            close_some();
        }
        // The parent's end may have closed the socket before its files.
        if (parent_ >= 0 && has_files()) {
            pollfd ended{parent_, POLLIN, 0};
            while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
            }
        }
        ::_exit(0);
    }

private:
    static constexpr std::size_t most_closers = 4;

    struct Closer {
        int process = -1;
        std::uint32_t user = 0;
    };

    void wait(int socket) {
        std::array<pollfd, most_closers + 1> ready{};
        ready[0] = {socket, POLLIN, 0};
        for (std::size_t i = 0; i < most_closers; i++) {
            ready[i + 1] = {closers_[i].process, POLLIN, 0};  // -1 is left out
        }
        (void)::poll(ready.data(), ready.size(), has_no_child_ ? before_next_child_ms : -1);
    }

    // False: the connection has ended.
    bool take_messages(int socket) {
        for (;;) {
            KeepMessage message{};
            int fd = -1;
            const ssize_t got = receive_message(
                socket, std::as_writable_bytes(std::span(&message, 1)), {&fd, 1}, MSG_DONTWAIT);
            if (got < 0 && errno == EAGAIN) {
                return true;
            }
            if (got != sizeof(message)) {
                return false;
            }
            take(message, fd);
        }
    }

    void take(const KeepMessage &message, int fd) {
        if (message.what == Keep::parent) {
            parent_ = fd;
        } else if (message.what == Keep::begin) {
            add(message, fd);
        } else {
            const auto used = kept();
            const auto file = std::ranges::find(used, message.key, &KeptFile::key);
            if (file != used.end()) {
                file->is_closing = true;
            }
        }
    }

    void add(const KeepMessage &message, int fd) {
        const auto at = static_cast<std::size_t>(fd);
        if (fd < 0 || at >= kept_files.size()) {
            ::close(fd);
            return;
        }
        kept_files[at] = {message.key, message.user, false};
        end_ = std::max(end_, at + 1);
    }

    [[nodiscard]] std::span<KeptFile> kept() const { return std::span(kept_files).first(end_); }

    [[nodiscard]] bool has_files() const {
        return std::ranges::any_of(kept(), [](const KeptFile &file) { return file.key != 0; });
    }

    void forget_ended_closers() {
        for (Closer &closer : closers_) {
            pollfd ended{closer.process, POLLIN, 0};
            if (closer.process >= 0 && ::poll(&ended, 1, 0) == 1) {
                ::close(std::exchange(closer.process, -1));
            }
        }
    }

    // Those of one user by one child, and of no user by two at once.
    void close_some() {
        has_no_child_ = false;
        for (std::size_t fd = 0; fd < end_ && !has_no_child_; fd++) {
            const KeptFile &file = kept_files[fd];
            const bool has_closer = std::ranges::any_of(closers_, [&](const Closer &closer) {
                return closer.process >= 0 && closer.user == file.user;
            });
            const auto free = std::ranges::find(closers_, -1, &Closer::process);
            if (file.is_closing && !has_closer && free != closers_.end()) {
                has_no_child_ = !start(*free, file.user);
            }
        }
    }

    bool start(Closer &closer, std::uint32_t user) {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
            return false;
        }
        int process = -1;
        const pid_t child = fork_with_descriptor(process);
        if (child == 0) {
            close_last(user, ends[0]);
        }
        ::close(ends[0]);
        if (child > 0) {
            closer = {process, user};
            for (std::size_t fd = 0; fd < end_; fd++) {
                if (is_closing(fd, user)) {
                    ::close(static_cast<int>(fd));
                    kept_files[fd] = {};
                }
            }
        }
        ::close(ends[1]);
        return child > 0;
    }

    [[nodiscard]] bool is_closing(std::size_t fd, std::uint32_t user) const {
        return kept_files[fd].is_closing && kept_files[fd].user == user;
    }

    // The child closes all other files at once: others of these may be closed last meanwhile.
    [[noreturn]] void close_last(std::uint32_t user, int when_it_ends) const {
        (void)::setpriority(PRIO_PROCESS, 0, closing_niceness);
        const auto kept_pipe = static_cast<std::size_t>(when_it_ends);
        for (std::size_t fd = 0; fd < end_; fd++) {
            if (!is_closing(fd, user) && fd != kept_pipe) {
                ::close(static_cast<int>(fd));
            }
        }
        if (kept_pipe >= end_) {
            close_between(static_cast<int>(end_), when_it_ends - 1);
        }
        (void)::syscall(SYS_close_range, static_cast<unsigned>(std::max(end_, kept_pipe + 1)), ~0U,
                        0U);
        // The keeper has closed them, then.
        char nothing = 0;
        while (::read(when_it_ends, &nothing, 1) < 0 && errno == EINTR) {
        }
        (void)::syscall(SYS_close_range, 0U, ~0U, 0U);
        ::_exit(0);
    }

    std::size_t end_ = 0;  // of the descriptors in use
    std::array<Closer, most_closers> closers_{};
    int parent_ = -1;
    bool has_no_child_ = false;
};

}  // namespace

void keep_files(int socket) {
    KeptFiles().keep(socket);
}

}  // namespace reader

namespace {

using std::chrono::seconds;
using KeeperClock = std::chrono::steady_clock;

// For the keeper to be started, and after it could not be.
constexpr seconds patience_with_keeper{2};
constexpr seconds before_next_keeper{10};

class FileKeeper : public std::enable_shared_from_this<FileKeeper> {
public:
    // Made first, it ends last, and waits for the keeper.
    FileKeeper() { (void)ForkingProcess::of_this_process(); }

    // Null: there is no keeper.
    std::shared_ptr<const void> keep(int fd, std::uint32_t user) {
        const std::lock_guard lock(mutex_);
        if (!socket_ && !start()) {
            return nullptr;
        }
        auto kept = std::make_shared<Kept>(shared_from_this(), ++last_key_);
        if (!send({Keep::begin, user, last_key_}, fd)) {
            kept->key = 0;
            return nullptr;
        }
        return kept;
    }

private:
    // A file that the keeper has open.
    struct Kept {
        Kept(std::shared_ptr<FileKeeper> by, std::uint64_t of) : keeper(std::move(by)), key(of) {}
        Kept(const Kept &) = delete;
        Kept &operator=(const Kept &) = delete;
        ~Kept() {
            if (key != 0) {
                keeper->end(key);
            }
        }

        std::shared_ptr<FileKeeper> keeper;
        std::uint64_t key;
    };

    void end(std::uint64_t key) {
        const std::lock_guard lock(mutex_);
        ended_.push_back(key);
        while (!ended_.empty() && send({Keep::end, 0, ended_.back()}, -1)) {
            ended_.pop_back();
        }
        if (!socket_) {
            ended_.clear();  // it was killed, and has closed all
        }
    }

    bool start() {
        const auto now = KeeperClock::now();
        std::array<int, 2> ends{};
        if (now < no_start_before_ ||
            ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
            return false;
        }
        Fd ours(ends[0]);
        const Fd its(ends[1]);
        const Fd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
        const auto child = ForkingProcess::of_this_process().fork_child(
            reader::Child::keeper, {its.get(), -1}, patience_with_keeper);
        if (!child) {
            no_start_before_ = now + before_next_keeper;
            return false;
        }
        socket_ = std::move(ours);
        return send({Keep::parent, 0, 0}, self.get());
    }

    bool send(const KeepMessage &message, int fd) {
        if (!socket_) {
            return false;
        }
        const bool is_sent = send_message(socket_.get(), std::as_bytes(std::span(&message, 1)),
                                          {&fd, 1}, MSG_DONTWAIT);
        if (!is_sent && errno != EAGAIN) {
            socket_ = Fd();
        }
        return is_sent;
    }

    std::mutex mutex_;
    Fd socket_;
    KeeperClock::time_point no_start_before_{};
    std::uint64_t last_key_ = 0;
    std::vector<std::uint64_t> ended_;  // that it was not told of yet
};

}  // namespace

Fd keep_open_elsewhere(Fd file, std::optional<std::uint32_t> user) {
    static const auto keeper = std::make_shared<FileKeeper>();
    if (!file) {
        return file;
    }
    auto kept = keeper->keep(file.get(), user.value_or(UINT32_MAX));
    return {std::move(file), std::move(kept)};
}

}  // namespace gpusnoop
