#include "exporter/ebpf/handover.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>

#include "exporter/base/log.h"

namespace gpusnoop::ebpf {

namespace {

// In this pause, others can attach: the kernel has one lock for attaching and detaching.
constexpr timespec pause_between_links{.tv_sec = 0, .tv_nsec = 30'000'000};

// The code below runs in the child of a process with threads: system calls only.

// The text of "/proc/self/fd/<fd>".
class DescriptorPath {
public:
    explicit DescriptorPath(int fd) {
        constexpr std::string_view prefix = "/proc/self/fd/";
        std::array<char, 12> digits{};
        std::size_t count = 0;
        do {
            digits[count++] = static_cast<char>('0' + fd % 10);
            fd /= 10;
        } while (fd > 0);
        std::size_t length = prefix.copy(text_.data(), prefix.size());
        while (count > 0) {
            text_[length++] = digits[--count];
        }
    }
    [[nodiscard]] const char *text() const { return text_.data(); }

private:
    std::array<char, 32> text_{};
};

enum class Kind { closed, other, bpf };

Kind kind_of(int fd) {
    std::array<char, 64> target{};
    const ssize_t length = ::readlink(DescriptorPath(fd).text(), target.data(), target.size() - 1);
    if (length < 0) {
        return errno == ENOENT ? Kind::closed : Kind::other;
    }
    const std::string_view text(target.data(), static_cast<std::size_t>(length));
    // "bpf-link", or "bpf_link" on older kernels, and the names for programs and maps.
    return text.starts_with("anon_inode:bpf") || text.starts_with("anon_inode:[perf_event]")
               ? Kind::bpf
               : Kind::other;
}

// Closes the descriptor. True: that took the kernel more than a millisecond.
bool close_slowly(int fd) {
    timespec before{};
    timespec after{};
    ::clock_gettime(CLOCK_MONOTONIC, &before);
    ::close(fd);
    ::clock_gettime(CLOCK_MONOTONIC, &after);
    return after.tv_sec != before.tv_sec || after.tv_nsec - before.tv_nsec > 1'000'000;
}

[[noreturn]] void detach_alone(int until_parent_ended, int most_files) {
    ::setsid();
    ::prctl(PR_SET_NAME, "gpusnoop_detach");
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
        ::signal(signal, SIG_IGN);
    }
    // Frees ports, locks, logs and files immediately.
    for (int fd = 0; fd < most_files; fd++) {
        if (fd != until_parent_ended && kind_of(fd) == Kind::other) {
            ::close(fd);
        }
    }
    // Until the parent has ended, it closes links without waiting: the child holds them, too.
    char nothing = 0;
    while (::read(until_parent_ended, &nothing, 1) < 0 && errno == EINTR) {
    }
    for (int fd = 0; fd < most_files; fd++) {
        if (close_slowly(fd)) {
            ::nanosleep(&pause_between_links, nullptr);
        }
    }
    ::_exit(0);
}

// The highest open descriptor, plus one.
int end_of_descriptors() {
    int end = 3;
    std::error_code error;
    for (auto entry = std::filesystem::directory_iterator("/proc/self/fd", error);
         !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        int fd = 0;
        std::from_chars(name.data(), name.data() + name.size(), fd);
        end = std::max(end, fd + 1);
    }
    return end;
}

void hand_over() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        log::warn(
            "cannot start a helper process to detach the remaining probes: the exporter ends when "
            "they are detached",
            {{"reason", std::strerror(errno)}});
        return;
    }
    const int most_files = end_of_descriptors();
    const pid_t child = ::fork();
    if (child == 0) {
        detach_alone(ends[0], most_files);
    }
    ::close(ends[0]);
    // The parent keeps the other end open until it ends: that is how the child sees its end.
    if (child < 0) {
        log::warn(
            "cannot start a helper process to detach the remaining probes: the exporter ends when "
            "they are detached",
            {{"reason", std::strerror(errno)}});
        return;
    }
    log::info("a helper process detaches the remaining probes", {{"pid", child}});
}

}  // namespace

Handover::Handover(std::chrono::milliseconds patience,
                   std::optional<std::chrono::milliseconds> longest) {
    const auto began = std::chrono::steady_clock::now();
    const auto wait = [this, began, patience, longest](const std::stop_token &stop) {
        std::unique_lock lock(mutex_);
        (void)changed_.wait_until(lock, stop, began + patience, [] { return false; });
        if (stop.stop_requested()) {
            return;
        }
        hand_over();
        if (!longest) {
            return;
        }
        (void)changed_.wait_until(lock, stop, began + *longest, [] { return false; });
        if (!stop.stop_requested()) {
            log::warn(
                "a part of the exporter does not stop in time: it ends without waiting for it");
            std::_Exit(0);
        }
    };
    try {
        thread_ = std::jthread(wait);
    } catch (const std::system_error &error) {
        log::warn(
            "cannot start a thread for the exit: the exporter ends when all probes are detached",
            {{"reason", error.what()}});
    }
}

Handover::~Handover() {
    thread_.request_stop();
}

}  // namespace gpusnoop::ebpf
