// Sockets that a server listens on.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/config/config.h"

namespace gpusnoop::http {

// A listening socket. If it created a file at a path, it removes the file when destroyed.
class Listener {
public:
    // Binds and listens. `address` has the form for parse_listen_address; ":PORT" listens on IPv6,
    // too, if the machine has it. The file of a Unix socket is created for the exporter's user and
    // group (0660); a socket without a listener at that path is replaced. Errors: "cannot listen on
    // :19435: address already in use".
    [[nodiscard]] static Result<Listener> open(const std::string &address);
    // Takes over a socket from another program: a stream socket that listens already. Errors say
    // why it is unsuitable.
    [[nodiscard]] static Result<Listener> adopt(Fd fd);

    Listener(Listener &&other) noexcept;
    Listener &operator=(Listener &&) = delete;
    Listener(const Listener &) = delete;
    Listener &operator=(const Listener &) = delete;
    ~Listener();

    [[nodiscard]] int fd() const { return fd_.get(); }
    // The actual address: "[::]:19435", "127.0.0.1:40123", "unix:/run/x.sock".
    [[nodiscard]] const std::string &address() const { return address_; }
    // 0 for a Unix socket.
    [[nodiscard]] std::uint16_t port() const { return port_; }

private:
    explicit Listener(Fd fd) : fd_(std::move(fd)) {}
    [[nodiscard]] Result<> note_address();

    Fd fd_;
    std::string address_;
    std::uint16_t port_ = 0;
    std::string own_path_;  // empty: no file to remove
    dev_t device_ = 0;      // of the file there
    ino_t inode_ = 0;
};

// The listeners of the configuration.
[[nodiscard]] Result<std::vector<Listener>> open_listeners(const config::Config::Web &web);

// The sockets passed by systemd's socket activation (LISTEN_PID, LISTEN_FDS). Only the first call
// returns them. Errors: there are none, or one is not a listening stream socket.
[[nodiscard]] Result<std::vector<Listener>> systemd_listeners();

}  // namespace gpusnoop::http
