#include "exporter/system/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "exporter/base/fd.h"
#include "exporter/base/log.h"

namespace gpusnoop {

namespace {

template <typename Number>
std::optional<Number> number_in(const char *name) {
    const char *text = std::getenv(name);
    if (text == nullptr) {
        return std::nullopt;
    }
    const std::string_view all(text);
    Number number = 0;
    const auto read = std::from_chars(all.data(), all.data() + all.size(), number);
    return read.ec == std::errc{} && read.ptr == all.data() + all.size() ? std::optional(number)
                                                                         : std::nullopt;
}

}  // namespace

Notifier Notifier::from_environment() {
    const char *socket = std::getenv("NOTIFY_SOCKET");
    return Notifier(socket == nullptr ? "" : socket);
}

Result<> Notifier::send(std::string_view lines) const {
    if (socket_.empty()) {
        return {};
    }
    const std::string step = "tell the service manager at " + socket_;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (socket_.size() >= sizeof(address.sun_path) || (socket_[0] != '/' && socket_[0] != '@')) {
        return fail_errno(step, EINVAL);
    }
    socket_.copy(address.sun_path, socket_.size());
    if (socket_[0] == '@') {
        address.sun_path[0] = '\0';
    }
    const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
    if (!fd || ::sendto(fd.get(), lines.data(), lines.size(), MSG_NOSIGNAL,
                        reinterpret_cast<const sockaddr *>(&address), length) < 0) {
        return fail_errno(step);
    }
    return {};
}

std::optional<std::chrono::microseconds> watchdog_timeout() {
    const auto timeout = number_in<std::int64_t>("WATCHDOG_USEC");
    const char *const pid = std::getenv("WATCHDOG_PID");
    if (!timeout || *timeout <= 0 ||
        (pid != nullptr && number_in<pid_t>("WATCHDOG_PID") != ::getpid())) {
        return std::nullopt;
    }
    return std::chrono::microseconds(*timeout);
}

bool Heartbeat::is_due(std::chrono::steady_clock::time_point now) {
    if (!timeout_ || (last_ && now - *last_ < *timeout_ / 3)) {
        return false;
    }
    last_ = now;
    return true;
}

void ServiceManager::tell(std::string_view lines) const {
    if (const auto told = notifier_.send(lines); !told) {
        log::warn("cannot notify systemd", {{"reason", told.error().message}});
    }
}

}  // namespace gpusnoop
