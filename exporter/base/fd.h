// A file descriptor that closes itself.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <utility>

namespace gpusnoop {

class Fd {
public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    // `kept` goes after the descriptor is closed (system/file_keeper.h).
    Fd(Fd other, std::shared_ptr<const void> kept) : fd_(other.release()), kept_(std::move(kept)) {}
    Fd(Fd &&other) noexcept
        : fd_(std::exchange(other.fd_, -1)), kept_(std::exchange(other.kept_, nullptr)) {}
    Fd &operator=(Fd &&other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
            kept_ = std::exchange(other.kept_, nullptr);
        }
        return *this;
    }
    Fd(const Fd &) = delete;
    Fd &operator=(const Fd &) = delete;
    ~Fd() { reset(); }

    [[nodiscard]] int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }

    [[nodiscard]] const std::shared_ptr<const void> &kept() const { return kept_; }

    // Whoever takes the result closes it.
    [[nodiscard]] int release() {
        kept_.reset();
        return std::exchange(fd_, -1);
    }

    void reset() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
        fd_ = -1;
        kept_.reset();
    }

private:
    int fd_ = -1;
    std::shared_ptr<const void> kept_;
};

// Another descriptor of the same file; empty if there is none, with errno.
[[nodiscard]] inline Fd duplicate(int fd) {
    return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}
[[nodiscard]] inline Fd duplicate(const Fd &file) {
    return {duplicate(file.get()), file.kept()};
}

}  // namespace gpusnoop
