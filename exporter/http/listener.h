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

// A listening socket. One that was made here at a path takes its file with it when it goes.
class Listener {
public:
    // Binds and listens. `address` is as parse_listen_address takes it; ":PORT" listens on IPv6 too
    // where the machine has it. The file of a Unix socket is made for the exporter's user and group
    // (0660); one that nobody listens on any more makes room. Errors:
    // "cannot listen on :19435: address already in use".
    [[nodiscard]] static Result<Listener> open(const std::string &address);
    // Takes over what another made: a stream socket that listens already. Errors say why it cannot
    // be one.
    [[nodiscard]] static Result<Listener> adopt(Fd fd);

    Listener(Listener &&other) noexcept;
    Listener &operator=(Listener &&) = delete;
    Listener(const Listener &) = delete;
    Listener &operator=(const Listener &) = delete;
    ~Listener();

    [[nodiscard]] int fd() const { return fd_.get(); }
    // Where it really listens: "[::]:19435", "127.0.0.1:40123", "unix:/run/x.sock".
    [[nodiscard]] const std::string &address() const { return address_; }
    // 0 for a Unix socket.
    [[nodiscard]] std::uint16_t port() const { return port_; }

private:
    explicit Listener(Fd fd) : fd_(std::move(fd)) {}
    [[nodiscard]] Result<> note_address();

    Fd fd_;
    std::string address_;
    std::uint16_t port_ = 0;
    std::string own_path_;  // empty: none that goes with it
    dev_t device_ = 0;      // of the file there
    ino_t inode_ = 0;
};

// Those that the configuration asks for.
[[nodiscard]] Result<std::vector<Listener>> open_listeners(const config::Config::Web &web);

// Those that systemd passes with the socket's activation (LISTEN_PID, LISTEN_FDS), once: a second
// call finds none. Errors: there are none, or they are no listening stream sockets.
[[nodiscard]] Result<std::vector<Listener>> systemd_listeners();

}  // namespace gpusnoop::http
