// An open target: a file, a fifo or a socket. Only connecting to a host name can wait long, for the
// name resolver.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/sinks/target.h"

namespace gpusnoop::sinks {

// A sink's file, opened so that no other user chooses which file it is.

// Opens the file at `path`, which is absolute, to append to it, and creates it if it does not
// exist. Follows symbolic links, on the way and at the end, only if they belong to root or to the
// exporter's own user. An error if everybody may write to the file's directory, or to a directory
// on the way that has no sticky bit. Never waits: a FIFO without a reader is ENXIO.
[[nodiscard]] Result<Fd> open_to_append(const std::string &path);

class Connection {
public:
    // Connecting fails after this time, or when `stop_fd` becomes readable.
    static constexpr std::chrono::seconds connect_patience{5};

    static Result<Connection> open(const Target &target, int stop_fd);

    // How many bytes were written; 0 if none can be written now. After an error of code ENOSPC or
    // EDQUOT, the connection is still usable.
    [[nodiscard]] Result<std::size_t> write(std::string_view bytes) const;

    // Whether the target still names it and its receiver is connected: not so for a file that was
    // renamed or deleted, or a closed socket.
    [[nodiscard]] bool is_current(const Target &target) const;

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] bool is_socket() const { return is_socket_; }
    // Identify a regular file; 0 for other targets.
    [[nodiscard]] dev_t device() const { return device_; }
    [[nodiscard]] ino_t inode() const { return inode_; }

private:
    explicit Connection(Fd fd) : fd_(std::move(fd)) {}
    static Result<Connection> open_file(const Target &target);
    static Result<Connection> open_unix(const Target &target);
    static Result<Connection> open_tcp(const Target &target, int stop_fd);

    Fd fd_;
    bool is_socket_ = false;
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

}  // namespace gpusnoop::sinks
