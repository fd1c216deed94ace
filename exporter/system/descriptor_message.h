// Messages with descriptors between processes, on a Unix socket that keeps their limits
// (SOCK_SEQPACKET). These make only system calls: a child forked from a process with threads may
// use them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>

namespace gpusnoop {

// The most descriptors of a message.
constexpr std::size_t max_sent_descriptors = 2;

// Descriptors that are -1 are not sent; the others are, in their order. `flags` of sendmsg().
// False: errno says why.
[[nodiscard]] bool send_message(int socket, std::span<const std::byte> data,
                                std::span<const int> descriptors, int flags = 0);
// How many bytes of data came: 0 at the end of the connection, -1 with errno. Descriptors that did
// not come are -1; those that came belong to the caller, and are closed on exec. `flags` of
// recvmsg().
[[nodiscard]] ssize_t receive_message(int socket, std::span<std::byte> data,
                                      std::span<int> descriptors, int flags = 0);
// Whether there is a message, or the connection's end, after `most` at the latest.
[[nodiscard]] bool becomes_readable(int socket, std::chrono::milliseconds most);

}  // namespace gpusnoop
