// Listens on a stream socket and keeps the lines that are sent.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "exporter/base/fd.h"

namespace harness {

// Reads all connections to it until it is destroyed, which closes them, as the end of a killed
// process does.
class Receiver {
public:
    // A Unix socket, whose path must not exist yet.
    explicit Receiver(const std::string &path) : Receiver(listen_unix(path)) {}
    // TCP on 127.0.0.1; port 0 is any.
    explicit Receiver(std::uint16_t port) : Receiver(listen_tcp(port)) {}
    ~Receiver() {
        stop_ = true;
        thread_.join();
    }
    Receiver(const Receiver &) = delete;
    Receiver &operator=(const Receiver &) = delete;

    // The whole lines received so far.
    [[nodiscard]] std::vector<std::string> lines() const {
        const std::lock_guard lock(mutex_);
        return lines_;
    }
    // The bytes after the last newline of closed connections: lines that were cut short.
    [[nodiscard]] std::vector<std::string> rests() const {
        const std::lock_guard lock(mutex_);
        return rests_;
    }
    [[nodiscard]] std::uint16_t port() const {
        sockaddr_in address{};
        socklen_t size = sizeof(address);
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr *>(&address), &size);
        return ntohs(address.sin_port);
    }

private:
    explicit Receiver(gpusnoop::Fd listener)
        : listener_(std::move(listener)), thread_([this] { run(); }) {}

    static gpusnoop::Fd bound(int family, const void *address, socklen_t size) {
        gpusnoop::Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const int on = 1;
        ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (::bind(fd.get(), static_cast<const sockaddr *>(address), size) != 0 ||
            ::listen(fd.get(), 8) != 0) {
            throw std::runtime_error(std::string("listen: ") + std::strerror(errno));
        }
        return fd;
    }
    static gpusnoop::Fd listen_unix(const std::string &path) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof(address.sun_path) - 1);
        return bound(AF_UNIX, &address, sizeof(address));
    }
    static gpusnoop::Fd listen_tcp(std::uint16_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return bound(AF_INET, &address, sizeof(address));
    }

    struct Connection {
        gpusnoop::Fd fd;
        std::string rest;
    };

    void run() {
        std::vector<Connection> connections;
        while (!stop_) {
            std::vector<pollfd> events = {{listener_.get(), POLLIN, 0}};
            for (const Connection &one : connections) {
                events.push_back({one.fd.get(), POLLIN, 0});
            }
            ::poll(events.data(), events.size(), 10);
            for (std::size_t i = connections.size(); i-- > 0;) {
                if (events[i + 1].revents != 0 && !read(connections[i])) {
                    connections.erase(connections.begin() + static_cast<std::ptrdiff_t>(i));
                }
            }
            if (events[0].revents != 0) {
                connections.push_back(
                    {gpusnoop::Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)), {}});
            }
        }
    }

    bool read(Connection &one) {
        std::array<char, 65536> bytes{};
        const ssize_t n = ::read(one.fd.get(), bytes.data(), bytes.size());
        const std::lock_guard lock(mutex_);
        if (n <= 0) {
            if (!one.rest.empty()) {
                rests_.push_back(one.rest);
            }
            return false;
        }
        one.rest.append(bytes.data(), static_cast<std::size_t>(n));
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = one.rest.find('\n', begin)) != std::string::npos;
             begin = end + 1) {
            lines_.push_back(one.rest.substr(begin, end - begin));
        }
        one.rest.erase(0, begin);
        return true;
    }

    gpusnoop::Fd listener_;
    mutable std::mutex mutex_;
    std::vector<std::string> lines_;
    std::vector<std::string> rests_;
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

}  // namespace harness
