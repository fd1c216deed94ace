#include "exporter/sinks/connection.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

namespace gpusnoop::sinks {

namespace {

constexpr int file_flags = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr mode_t file_mode = 0640;
constexpr int most_links = 40;  // the kernel's limit

using Names = std::deque<std::string>;

Names split(std::string_view path) {
    Names names;
    while (!path.empty()) {
        const std::string_view name = path.substr(0, path.find('/'));
        path.remove_prefix(name.size() + (name.size() < path.size() ? 1 : 0));
        if (!name.empty() && name != ".") {
            names.emplace_back(name);
        }
    }
    return names;
}

Result<Fd> open_root() {
    Fd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) {
        return fail_errno("open /");
    }
    return root;
}

// In a directory that everybody may write to, any user can put a link, a FIFO or a file of his own.
// The sticky bit protects existing names, but does not prevent new names.
Result<> check_directory(const Fd &directory, bool is_last) {
    struct stat status{};
    if (::fstat(directory.get(), &status) != 0) {
        return fail_errno("stat the directory");
    }
    const bool everybody_writes = (status.st_mode & S_IWOTH) != 0;
    if (everybody_writes && (is_last || (status.st_mode & S_ISVTX) == 0)) {
        return fail(
            "everybody may write to a directory of its path: choose one of the exporter's own",
            EPERM);
    }
    return {};
}

bool is_below_proc(const Fd &directory) {
    struct statfs status{};
    return ::fstatfs(directory.get(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

// The target of the symbolic link `link`; an error if it is another user's.
Result<std::string> follow(const Fd &link, const struct stat &status) {
    if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
        return fail("its path leads through a symbolic link of another user", ELOOP);
    }
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlinkat(link.get(), "", target.data(), target.size());
    if (size < 0) {
        return fail_errno("read a symbolic link");
    }
    return std::string(target.data(), static_cast<std::size_t>(size));
}

// Walks from the root to the file, one name at a time.
class Walk {
public:
    Walk(Fd root, Names names) : directory_(std::move(root)), names_(std::move(names)) {}

    // The file, or empty if the walk continues.
    Result<std::optional<Fd>> step() {
        const std::string name = names_.front();
        const bool is_last = names_.size() == 1;
        if (const auto checked = check_directory(directory_, is_last); !checked) {
            return tl::unexpected(checked.error());
        }
        Fd next(::openat(directory_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        struct stat status{};
        if (next && ::fstat(next.get(), &status) != 0) {
            return fail_errno("stat a part of the path");
        }
        if (!next && !(is_last && errno == ENOENT)) {
            return fail_errno("open");
        }
        if (next && S_ISLNK(status.st_mode)) {
            // Links such as /proc/self/fd/1 are the kernel's, and their targets are not paths.
            return is_last && is_below_proc(directory_) ? open_here(name, 0)
                                                        : follow_link(next, status);
        }
        if (is_last) {
            return open_here(name, O_NOFOLLOW);
        }
        directory_ = std::move(next);
        names_.pop_front();
        return std::nullopt;
    }

private:
    [[nodiscard]] Result<std::optional<Fd>> open_here(const std::string &name, int more) const {
        Fd file(::openat(directory_.get(), name.c_str(), file_flags | more, file_mode));
        if (!file) {
            return fail_errno("open");
        }
        return std::optional<Fd>(std::move(file));
    }

    Result<std::optional<Fd>> follow_link(const Fd &link, const struct stat &status) {
        if (++links_ > most_links) {
            return fail_errno("open", ELOOP);
        }
        const auto target = follow(link, status);
        if (!target) {
            return tl::unexpected(target.error());
        }
        names_.pop_front();
        Names more = split(*target);
        names_.insert(names_.begin(), more.begin(), more.end());
        if (target->starts_with('/')) {
            auto root = open_root();
            if (!root) {
                return tl::unexpected(root.error());
            }
            directory_ = *std::move(root);
        }
        if (names_.empty()) {
            return fail_errno("open", EISDIR);
        }
        return std::nullopt;
    }

    Fd directory_;
    Names names_;
    int links_ = 0;
};

}  // namespace

Result<Fd> open_to_append(const std::string &path) {
    auto root = open_root();
    if (!root) {
        return root;
    }
    Names names = split(path);
    if (names.empty()) {
        return fail_errno("open", EISDIR);
    }
    Walk walk(*std::move(root), std::move(names));
    while (true) {
        auto opened = walk.step();
        if (!opened) {
            return tl::unexpected(opened.error());
        }
        if (*opened) {
            return *std::move(*opened);
        }
    }
}

namespace {

// A TCP receiver that acknowledges nothing for so long is gone.
constexpr unsigned tcp_patience_ms = 30'000;

struct FreeAddresses {
    void operator()(addrinfo *list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> look_up(const Target &target) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo *list = nullptr;
    const int error =
        ::getaddrinfo(target.host.c_str(), std::to_string(target.port).c_str(), &hints, &list);
    if (error != 0) {
        return fail("find the address of " + target.host + ": " + ::gai_strerror(error));
    }
    return Addresses(list);
}

// Waits until a connection is made.
Result<> wait_connected(int fd, int stop_fd) {
    std::array<pollfd, 2> events = {{{fd, POLLOUT, 0}, {stop_fd, POLLIN, 0}}};
    const int patience_ms =
        static_cast<int>(std::chrono::milliseconds(Connection::connect_patience).count());
    const int ready = ::poll(events.data(), events.size(), patience_ms);
    if (ready < 0) {
        return fail_errno("wait for the connection");
    }
    if (ready == 0 || events[0].revents == 0) {
        return fail_errno("connect", ETIMEDOUT);
    }
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        return fail_errno("connect", error);
    }
    return {};
}

// Reads and drops the data that the receiver sends, so that the end of the connection is seen.
bool is_open(int fd) {
    std::array<char, 4096> bytes{};
    while (true) {
        const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (n == 0) {
            return false;
        }
        if (n < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
    }
}

}  // namespace

Result<Connection> Connection::open(const Target &target, int stop_fd) {
    switch (target.type) {
        case TargetType::file:
            return open_file(target);
        case TargetType::unix_socket:
            return open_unix(target);
        case TargetType::tcp:
            break;
    }
    return open_tcp(target, stop_fd);
}

Result<Connection> Connection::open_file(const Target &target) {
    auto fd = open_to_append(target.path);
    if (!fd) {
        return tl::unexpected(fd.error());
    }
    struct stat status{};
    if (::fstat(fd->get(), &status) != 0) {
        return fail_errno("stat the file");
    }
    Connection connection(*std::move(fd));
    if (S_ISREG(status.st_mode)) {
        connection.device_ = status.st_dev;
        connection.inode_ = status.st_ino;
    }
    return connection;
}

Result<Connection> Connection::open_unix(const Target &target) {
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) {
        return fail_errno("make a socket");
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, target.path.data(),
                std::min(target.path.size(), sizeof(address.sun_path) - 1));
    // A Unix socket connects immediately or not: EAGAIN means that the receiver's backlog is full.
    if (::connect(fd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0) {
        return fail_errno("connect");
    }
    Connection connection(std::move(fd));
    connection.is_socket_ = true;
    return connection;
}

Result<Connection> Connection::open_tcp(const Target &target, int stop_fd) {
    const auto addresses = look_up(target);
    if (!addresses) {
        return tl::unexpected(addresses.error());
    }
    Error last{"no address"};
    for (const addrinfo *one = addresses->get(); one != nullptr; one = one->ai_next) {
        Fd fd(::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (!fd) {
            return fail_errno("make a socket");
        }
        const int on = 1;
        ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        ::setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &tcp_patience_ms,
                     sizeof(tcp_patience_ms));
        Result<> connected;
        if (::connect(fd.get(), one->ai_addr, one->ai_addrlen) != 0) {
            connected = errno == EINPROGRESS ? wait_connected(fd.get(), stop_fd)
                                             : Result<>(fail_errno("connect"));
        }
        if (connected) {
            Connection connection(std::move(fd));
            connection.is_socket_ = true;
            return connection;
        }
        last = connected.error();
    }
    return tl::unexpected(last);
}

Result<std::size_t> Connection::write(std::string_view bytes) const {
    const ssize_t n = is_socket_ ? ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL)
                                 : ::write(fd_.get(), bytes.data(), bytes.size());
    if (n >= 0) {
        return static_cast<std::size_t>(n);
    }
    if (errno == EAGAIN || errno == EINTR) {
        return 0;
    }
    return fail_errno("write");
}

bool Connection::is_current(const Target &target) const {
    if (is_socket_) {
        return is_open(fd_.get());
    }
    if (inode_ == 0) {
        pollfd state{fd_.get(), 0, 0};  // poll() reports an error for a fifo without a reader
        return ::poll(&state, 1, 0) < 0 || (state.revents & POLLERR) == 0;
    }
    struct stat status{};
    return ::stat(target.path.c_str(), &status) == 0 && status.st_dev == device_ &&
           status.st_ino == inode_;
}

}  // namespace gpusnoop::sinks
