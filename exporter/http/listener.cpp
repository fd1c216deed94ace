#include "exporter/http/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <tuple>

#include "exporter/system/listen_address.h"

namespace gpusnoop::http {

namespace {

constexpr int backlog = 1024;
constexpr int first_passed = 3;  // the first file descriptor that systemd passes
constexpr int max_passed = 64;
constexpr mode_t socket_mode = 0660;

tl::unexpected<Error> cannot_listen(const std::string &address, int code) {
    std::string text = std::strerror(code);
    text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
    return fail("cannot listen on " + address + ": " + text, code);
}

bool lacks_ipv6(int error) {
    return error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
}

// A socket that listens, or the errno.
std::pair<Fd, int> listen_on(const ListenAddress &address, bool dual_stack) {
    const bool ipv6 = address.ipv6 || dual_stack;
    Fd fd(::socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) {
        return {Fd(), errno};
    }
    const int on = 1;
    const int only_ipv6 = dual_stack ? 0 : 1;
    sockaddr_in6 v6{};
    sockaddr_in v4{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = v4.sin_port = htons(address.port);
    v4.sin_family = AF_INET;
    if (!address.host.empty()) {
        inet_pton(address.ipv6 ? AF_INET6 : AF_INET, address.host.c_str(),
                  address.ipv6 ? static_cast<void *>(&v6.sin6_addr) : &v4.sin_addr);
    }
    if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (ipv6 &&
         setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, sizeof only_ipv6) != 0)) {
        return {Fd(), errno};
    }
    const int bound = ipv6 ? ::bind(fd.get(), reinterpret_cast<const sockaddr *>(&v6), sizeof v6)
                           : ::bind(fd.get(), reinterpret_cast<const sockaddr *>(&v4), sizeof v4);
    if (bound != 0 || ::listen(fd.get(), backlog) != 0) {
        return {Fd(), errno};
    }
    return {std::move(fd), 0};
}

sockaddr_un unix_address(const std::string &path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    return address;
}

// Whether the file at `path` is a socket without a listener.
bool is_stale(const std::string &path) {
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) {
        return false;
    }
    const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un address = unix_address(path);
    return fd &&
           ::connect(fd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0 &&
           errno == ECONNREFUSED;
}

std::pair<Fd, int> listen_at(const std::string &path) {
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // The file gets the socket's mode, less the umask: it never has more rights than in the end.
    if (!fd || ::fchmod(fd.get(), socket_mode) != 0) {
        return {Fd(), errno};
    }
    const sockaddr_un address = unix_address(path);
    const auto bind = [&] {
        return ::bind(fd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0;
    };
    bool is_bound = bind();
    if (!is_bound && errno == EADDRINUSE) {
        is_bound = is_stale(path) && ::unlink(path.c_str()) == 0 && bind();
        errno = is_bound ? 0 : EADDRINUSE;
    }
    if (!is_bound || ::chmod(path.c_str(), socket_mode) != 0 || ::listen(fd.get(), backlog) != 0) {
        return {Fd(), errno};
    }
    return {std::move(fd), 0};
}

template <typename T>
T number_of(const char *text) {
    T number = 0;
    if (text != nullptr) {
        const char *end = text + std::strlen(text);
        const auto [stop, error] = std::from_chars(text, end, number);
        number = error == std::errc{} && stop == end ? number : T{0};
    }
    return number;
}

}  // namespace

Listener::Listener(Listener &&other) noexcept
    : fd_(std::move(other.fd_)),
      address_(std::move(other.address_)),
      port_(other.port_),
      own_path_(std::exchange(other.own_path_, {})),
      device_(other.device_),
      inode_(other.inode_) {}

Listener::~Listener() {
    struct stat status{};
    if (!own_path_.empty() && ::lstat(own_path_.c_str(), &status) == 0 &&
        status.st_dev == device_ && status.st_ino == inode_) {
        ::unlink(own_path_.c_str());
    }
}

Result<Listener> Listener::open(const std::string &address) {
    const Result<ListenAddress> parsed = parse_listen_address(address);
    if (!parsed) {
        return tl::unexpected<Error>(parsed.error());
    }
    const bool is_unix = !parsed->unix_path.empty();
    const bool dual_stack = !is_unix && parsed->host.empty();
    auto [fd, error] = is_unix ? listen_at(parsed->unix_path) : listen_on(*parsed, dual_stack);
    if (dual_stack && lacks_ipv6(error)) {
        std::tie(fd, error) = listen_on(*parsed, false);
    }
    if (error != 0) {
        return cannot_listen(address, error);
    }
    Listener listener(std::move(fd));
    if (const auto noted = listener.note_address(); !noted) {
        return tl::unexpected<Error>(noted.error());
    }
    struct stat status{};
    if (is_unix && ::lstat(parsed->unix_path.c_str(), &status) == 0) {
        listener.own_path_ = parsed->unix_path;
        listener.device_ = status.st_dev;
        listener.inode_ = status.st_ino;
    }
    return listener;
}

Result<Listener> Listener::adopt(Fd fd) {
    int type = 0;
    int listens = 0;
    socklen_t size = sizeof type;
    socklen_t listens_size = sizeof listens;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
        return fail_errno("it is no socket");
    }
    if (type != SOCK_STREAM ||
        ::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0 ||
        listens == 0) {
        return fail("it is no stream socket that listens (ListenStream=, with Accept=no)");
    }
    const int flags = ::fcntl(fd.get(), F_GETFL);
    if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0 ||
        ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
        return fail_errno("it cannot be set up");
    }
    Listener listener(std::move(fd));
    if (const auto noted = listener.note_address(); !noted) {
        return tl::unexpected<Error>(noted.error());
    }
    return listener;
}

Result<> Listener::note_address() {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    if (::getsockname(fd_.get(), reinterpret_cast<sockaddr *>(&storage), &size) != 0) {
        return fail_errno("the address of a listening socket");
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (storage.ss_family == AF_INET) {
        const auto *v4 = reinterpret_cast<const sockaddr_in *>(&storage);
        port_ = ntohs(v4->sin_port);
        inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
        address_ = std::string(text.data()) + ":" + std::to_string(port_);
    } else if (storage.ss_family == AF_INET6) {
        const auto *v6 = reinterpret_cast<const sockaddr_in6 *>(&storage);
        port_ = ntohs(v6->sin6_port);
        inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
        address_ = "[" + std::string(text.data()) + "]:" + std::to_string(port_);
    } else if (storage.ss_family == AF_UNIX) {
        const auto *local = reinterpret_cast<const sockaddr_un *>(&storage);
        const std::size_t length = size - offsetof(sockaddr_un, sun_path);
        std::string path(local->sun_path, length);
        if (path.starts_with('\0')) {
            path.front() = '@';  // abstract: the other characters are its name
        }
        address_ = "unix:" + path.substr(0, path.find('\0'));
    } else {
        return fail("it is neither of TCP nor a Unix socket");
    }
    return {};
}

Result<std::vector<Listener>> open_listeners(const config::Config::Web &web) {
    if (web.systemd_socket) {
        return systemd_listeners();
    }
    std::vector<Listener> listeners;
    for (const std::string &address : web.listen_addresses) {
        auto listener = Listener::open(address);
        if (!listener) {
            return tl::unexpected<Error>(listener.error());
        }
        listeners.push_back(*std::move(listener));
    }
    return listeners;
}

Result<std::vector<Listener>> systemd_listeners() {
    const auto for_pid = number_of<pid_t>(std::getenv("LISTEN_PID"));
    const int count = for_pid == ::getpid() ? number_of<int>(std::getenv("LISTEN_FDS")) : 0;
    for (const char *name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) {
        ::unsetenv(name);
    }
    if (count < 1 || count > max_passed) {
        return fail(
            "systemd passed no sockets: --web.systemd-socket needs a .socket unit that starts "
            "this service");
    }
    std::vector<Listener> listeners;
    for (int fd = first_passed; fd < first_passed + count; fd++) {
        auto listener = Listener::adopt(Fd(fd));
        if (!listener) {
            return fail_in(
                "socket " + std::to_string(fd - first_passed + 1) + " that systemd passed",
                listener.error());
        }
        listeners.push_back(*std::move(listener));
    }
    return listeners;
}

}  // namespace gpusnoop::http
