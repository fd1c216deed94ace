#include "exporter/base/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace gpusnoop {

namespace {

// A descriptor that is writable takes this many bytes without waiting.
constexpr std::size_t piece_bytes = PIPE_BUF;
constexpr std::size_t flush_bytes = std::size_t{64} * 1024;
constexpr short broken = POLLERR | POLLNVAL;

}  // namespace

void Output::add(std::string_view line) {
    if (closed_) {
        return;
    }
    waiting_ += line;
    if (waiting_.size() >= flush_bytes) {
        flush();
    }
}

void Output::flush() {
    while (!closed_ && !waiting_.empty()) {
        std::array<pollfd, 2> fds{pollfd{fd_, POLLOUT, 0}, pollfd{stop_fd_, POLLIN, 0}};
        if (::poll(fds.data(), fds.size(), -1) < 0) {
            closed_ = errno != EINTR;
        } else if ((fds[0].revents & broken) != 0) {
            closed_ = true;
        } else if (fds[0].revents != 0) {
            write_piece();
        } else if (fds[1].revents != 0) {  // asked to stop while the reader does not read
            closed_ = true;
        }
    }
    if (closed_) {
        waiting_.clear();
    }
}

void Output::write_piece() {
    const ssize_t written = ::write(fd_, waiting_.data(), std::min(waiting_.size(), piece_bytes));
    if (written >= 0) {
        waiting_.erase(0, static_cast<std::size_t>(written));
    } else if (errno != EINTR && errno != EAGAIN) {
        closed_ = true;
        error_ = errno == EPIPE ? 0 : errno;
    }
}

bool Output::wait(int milliseconds) {
    std::array<pollfd, 2> fds{pollfd{fd_, 0, 0}, pollfd{stop_fd_, POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), milliseconds) > 0) {
        closed_ = closed_ || (fds[0].revents & broken) != 0;
        return (fds[1].revents & POLLIN) != 0;
    }
    return false;
}

}  // namespace gpusnoop
