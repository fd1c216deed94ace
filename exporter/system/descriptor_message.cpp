#include "exporter/system/descriptor_message.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace gpusnoop {

bool send_message(int socket, std::span<const std::byte> data, std::span<const int> descriptors,
                  int flags) {
    int sent[max_sent_descriptors];
    std::size_t count = 0;
    for (const int descriptor :
         descriptors.first(std::min(descriptors.size(), max_sent_descriptors))) {
        if (descriptor >= 0) {
            sent[count++] = descriptor;
        }
    }
    iovec bytes{const_cast<std::byte *>(data.data()), data.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(sent))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    if (count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        cmsghdr *const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        std::memcpy(CMSG_DATA(header), sent, count * sizeof(int));
    }
    return ::sendmsg(socket, &message, flags | MSG_NOSIGNAL) == static_cast<ssize_t>(data.size());
}

ssize_t receive_message(int socket, std::span<std::byte> data, std::span<int> descriptors,
                        int flags) {
    iovec bytes{data.data(), data.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(max_sent_descriptors * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    ssize_t got = 0;
    do {
        got = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    std::ranges::fill(descriptors, -1);
    const cmsghdr *const header = got < 0 ? nullptr : CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
        const std::size_t came = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        std::memcpy(descriptors.data(), CMSG_DATA(header),
                    std::min(came, descriptors.size()) * sizeof(int));
    }
    return got;
}

bool becomes_readable(int socket, std::chrono::milliseconds most) {
    const auto until = std::chrono::steady_clock::now() + most;
    pollfd readable{socket, POLLIN, 0};
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
        const int ready =
            ::poll(&readable, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        if (ready >= 0 || errno != EINTR) {
            return ready > 0;
        }
    }
}

}  // namespace gpusnoop
