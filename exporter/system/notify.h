// Tells the service manager how the program is doing, in the protocol of sd_notify(3): datagrams of
// lines NAME=value to the socket that NOTIFY_SOCKET names.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop {

class Notifier {
public:
    // `socket` is a path, or begins with '@' for one in the abstract namespace; empty: nobody
    // listens.
    explicit Notifier(std::string socket) : socket_(std::move(socket)) {}
    // Of the service manager that started this process, if one did.
    static Notifier from_environment();

    // Lines such as "READY=1\nSTATUS=serving"; the last needs no line end. Never waits: a manager
    // that does not read gets nothing. Fails where there is a socket, but no sending to it.
    [[nodiscard]] Result<> send(std::string_view lines) const;

    [[nodiscard]] bool is_heard() const { return !socket_.empty(); }

private:
    std::string socket_;
};

// What the service manager allows between two signs of life, if it wants any from this process:
// WATCHDOG_USEC, where WATCHDOG_PID is absent or ours.
[[nodiscard]] std::optional<std::chrono::microseconds> watchdog_timeout();

// When the next sign of life is due: three times as often as must be. For one thread.
class Heartbeat {
public:
    explicit Heartbeat(std::optional<std::chrono::microseconds> timeout) : timeout_(timeout) {}

    // True once for each time that is due; never without a timeout.
    [[nodiscard]] bool is_due(std::chrono::steady_clock::time_point now);

private:
    std::optional<std::chrono::microseconds> timeout_;
    std::optional<std::chrono::steady_clock::time_point> last_;
};

}  // namespace gpusnoop
