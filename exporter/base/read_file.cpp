#include "exporter/base/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>

#include "exporter/base/fd.h"

namespace gpusnoop {

Result<std::string> read_start(const std::string &path, std::size_t most) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) {
        return fail_errno("open " + path);
    }
    std::string text;
    std::size_t filled = 0;
    while (filled < most) {
        if (filled == text.size()) {
            text.resize(std::min(most, std::max<std::size_t>(1024, 2 * filled)));
        }
        const ssize_t got = ::read(file.get(), text.data() + filled, text.size() - filled);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fail_errno("read " + path);
        }
        if (got == 0) {
            break;
        }
        filled += static_cast<std::size_t>(got);
    }
    text.resize(filled);
    return text;
}

namespace {

using Clock = std::chrono::steady_clock;

int milliseconds_until(ReadingDeadline until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    return static_cast<int>(std::clamp<long>(left, 0, 60'000));
}

tl::unexpected<Error> too_slow(std::string_view what) {
    return fail(std::string(what) + " within " + std::to_string(reading_patience.count()) + " s",
                ETIMEDOUT);
}

// Non-blocking: else opening a FIFO waits for its writer, and opening a file under another
// process's lease waits until the lease is broken.
Result<Fd> open_until(const std::string &path, ReadingDeadline until) {
    constexpr std::chrono::milliseconds pause{10};
    while (true) {
        Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
        if (fd) {
            return fd;
        }
        if (errno != EINTR && errno != EWOULDBLOCK) {
            return fail(std::strerror(errno), errno);
        }
        if (Clock::now() >= until) {
            return too_slow("another process holds a lease on the file, and it did not open");
        }
        std::this_thread::sleep_for(pause);
    }
}

// Waits until there is something to read, or the end of the file. The end of a FIFO comes after its
// first writer.
bool wait_readable(int fd, ReadingDeadline until) {
    pollfd event{fd, POLLIN, 0};
    int ready = 0;
    do {
        ready = ::poll(&event, 1, milliseconds_until(until));
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

}  // namespace

Result<std::string> read_text(const std::string &path, std::size_t most, ReadingDeadline until) {
    const Result<Fd> fd = open_until(path, until);
    if (!fd) {
        return tl::unexpected(fd.error());
    }
    std::string text;
    std::array<char, 16384> chunk{};
    while (text.size() <= most) {
        if (!wait_readable(fd->get(), until)) {
            return too_slow(text.empty() ? "nothing came out of the file" : "the file did not end");
        }
        const ssize_t n = ::read(fd->get(), chunk.data(), chunk.size());
        if (n > 0) {
            text.append(chunk.data(), static_cast<std::size_t>(n));
        } else if (n == 0) {
            struct stat status{};
            if (text.empty() && ::fstat(fd->get(), &status) == 0 && S_ISFIFO(status.st_mode)) {
                return fail("the pipe is empty: what was in it can be read only once", ENODATA);
            }
            return text;
        } else if (errno != EINTR && errno != EAGAIN) {
            return fail(std::strerror(errno), errno);
        }
        if (Clock::now() >= until) {
            return too_slow("the file did not end");
        }
    }
    return fail("larger than " + std::to_string(most >> 20U) + " MiB", EFBIG);
}

}  // namespace gpusnoop
