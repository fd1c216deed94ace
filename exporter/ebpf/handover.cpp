#include "exporter/ebpf/handover.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>

#include "exporter/base/fd.h"
#include "exporter/base/log.h"

namespace gpusnoop::ebpf {

namespace {

// In this pause, others can attach: the kernel has one lock for attaching and detaching.
constexpr timespec pause_between_links{.tv_sec = 0, .tv_nsec = 30'000'000};

// The child needs some milliseconds to close the descriptors that it does not keep, on a busy
// machine more.
constexpr int wait_for_child_ms = 400;

enum class Share { perf_events, all };

// The code below runs in the child of a process with threads: system calls only.

// The text of "/proc/self/<directory>/<fd>".
class DescriptorPath {
public:
    DescriptorPath(std::string_view directory, int fd) {
        std::array<char, 12> digits{};
        std::size_t count = 0;
        do {
            digits[count++] = static_cast<char>('0' + fd % 10);
            fd /= 10;
        } while (fd > 0);
        add("/proc/self/");
        add(directory);
        add("/");
        while (count > 0) {
            text_[length_++] = digits[--count];
        }
    }
    [[nodiscard]] const char *text() const { return text_.data(); }

private:
    void add(std::string_view part) {
        length_ += part.copy(text_.data() + length_, text_.size() - length_ - 1);
    }

    std::array<char, 40> text_{};
    std::size_t length_ = 0;
};

std::atomic<bool> are_all_handed_over = false;

enum class Kind { closed, other, bpf, perf_event };

// Whether the BPF descriptor is a link that keeps a perf event open.
bool is_link_of_perf_event(int fd) {
    const int info = ::open(DescriptorPath("fdinfo", fd).text(), O_RDONLY | O_CLOEXEC);
    if (info < 0) {
        return false;
    }
    std::array<char, 512> text{};
    const ssize_t length = ::read(info, text.data(), text.size());
    ::close(info);
    return length > 0 && std::string_view(text.data(), static_cast<std::size_t>(length))
                                 .find("link_type:\tperf") != std::string_view::npos;
}

Kind kind_of(int fd) {
    std::array<char, 64> target{};
    const ssize_t length =
        ::readlink(DescriptorPath("fd", fd).text(), target.data(), target.size() - 1);
    if (length < 0) {
        return errno == ENOENT ? Kind::closed : Kind::other;
    }
    const std::string_view text(target.data(), static_cast<std::size_t>(length));
    if (text.starts_with("anon_inode:[perf_event]")) {
        return Kind::perf_event;
    }
    // "bpf-link", or "bpf_link" on older kernels, and the names for programs and maps.
    if (!text.starts_with("anon_inode:bpf")) {
        return Kind::other;
    }
    const bool is_link = text.find("link") != std::string_view::npos;
    return is_link && is_link_of_perf_event(fd) ? Kind::perf_event : Kind::bpf;
}

bool belongs_to(Share share, Kind kind) {
    return kind == Kind::perf_event || (kind == Kind::bpf && share == Share::all);
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

// `parent`: the child's end of a pair of sockets.
[[noreturn]] void detach_alone(int parent, int most_files, Share share) {
    ::setsid();
    ::prctl(PR_SET_NAME, "gpusnoop_detach");
    // What other threads have opened since the last descriptor was looked for.
    ::syscall(SYS_close_range, static_cast<unsigned>(most_files), ~0U, 0U);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
        ::signal(signal, SIG_IGN);
    }
    // Frees ports, locks, logs and files immediately. Links that the child has but does not keep
    // would keep their functions attached.
    std::uint32_t kept = 0;
    for (int fd = 0; fd < most_files; fd++) {
        if (fd == parent) {
            continue;
        }
        const Kind kind = kind_of(fd);
        if (belongs_to(share, kind)) {
            kept++;
        } else if (kind != Kind::closed) {
            ::close(fd);
        }
    }
    if (::write(parent, &kept, sizeof(kept)) < 0 || kept == 0) {
        ::_exit(0);
    }
    // Until the parent has ended, it closes links without waiting: the child holds them, too.
    char nothing = 0;
    while (::read(parent, &nothing, 1) < 0 && errno == EINTR) {
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

void warn_of_no_helper(int code) {
    log::warn(
        "cannot start a helper process to detach the remaining probes: the exporter ends when "
        "they are detached",
        {{"reason", std::strerror(code)}});
}

// How many descriptors the child keeps; not known if it does not answer in time.
std::optional<std::uint32_t> kept_by(const Fd &child) {
    pollfd answer{.fd = child.get(), .events = POLLIN, .revents = 0};
    std::uint32_t kept = 0;
    if (::poll(&answer, 1, wait_for_child_ms) == 1 &&
        ::read(child.get(), &kept, sizeof(kept)) == sizeof(kept)) {
        return kept;
    }
    return std::nullopt;
}

void hand_over(Share share) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        warn_of_no_helper(errno);
        return;
    }
    Fd child_end(ends[0]);
    Fd parent_end(ends[1]);
    const int most_files = end_of_descriptors();
    const pid_t child = ::fork();
    if (child == 0) {
        detach_alone(child_end.get(), most_files, share);
    }
    child_end.reset();
    if (child < 0) {
        warn_of_no_helper(errno);
        return;
    }
    const auto kept = kept_by(parent_end);
    if (!kept && share == Share::perf_events) {
        // It still has copies of links that this process is to detach itself.
        ::kill(child, SIGKILL);
        return;
    }
    if (kept == 0U) {
        ::waitpid(child, nullptr, 0);
        return;
    }
    are_all_handed_over = are_all_handed_over || share == Share::all;
    // It stays open until this process ends: that is how the child sees its end.
    (void)parent_end.release();
    log::info(share == Share::all ? "a helper process detaches the remaining probes"
                                  : "a helper process detaches the probes on perf events",
              {{"pid", child}});
}

}  // namespace

bool are_links_handed_over() {
    return are_all_handed_over;
}

void hand_over_perf_events(std::size_t at_least) {
    std::size_t events = 0;
    const int end = end_of_descriptors();
    for (int fd = 0; fd < end && events < at_least; fd++) {
        events += is_link_of_perf_event(fd) ? 1 : 0;
    }
    if (events >= at_least) {
        hand_over(Share::perf_events);
    }
}

Handover::Handover(std::chrono::milliseconds patience,
                   std::optional<std::chrono::milliseconds> longest) {
    const auto began = std::chrono::steady_clock::now();
    const auto wait = [this, began, patience, longest](const std::stop_token &stop) {
        std::unique_lock lock(mutex_);
        (void)changed_.wait_until(lock, stop, began + patience, [] { return false; });
        if (stop.stop_requested()) {
            return;
        }
        hand_over(Share::all);
        if (!longest) {
            return;
        }
        (void)changed_.wait_until(lock, stop, began + *longest, [] { return false; });
        if (!stop.stop_requested()) {
            log::warn(
                "a thread of the exporter does not stop in time: exiting without waiting for it");
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
