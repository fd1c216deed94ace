// Sends the program's state to the service manager, in the protocol of sd_notify(3): datagrams of
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
    // `socket` is a path, or begins with '@' for one in the abstract namespace; empty: there is no
    // service manager.
    explicit Notifier(std::string socket) : socket_(std::move(socket)) {}
    // For the service manager that started this process, if one did.
    static Notifier from_environment();

    // Sends lines such as "READY=1\nSTATUS=serving"; the last needs no line end. Never waits: if
    // the manager does not read, the lines are dropped. Fails if there is a socket, but sending to
    // it fails.
    [[nodiscard]] Result<> send(std::string_view lines) const;

private:
    std::string socket_;
};

// The longest time that the service manager allows between two watchdog notifications, if it
// expects any from this process: WATCHDOG_USEC, if WATCHDOG_PID is absent or names this process.
[[nodiscard]] std::optional<std::chrono::microseconds> watchdog_timeout();

// When the next watchdog notification is due: three times as often as required. For one thread.
class Heartbeat {
public:
    explicit Heartbeat(std::optional<std::chrono::microseconds> timeout) : timeout_(timeout) {}

    // True once for each notification that is due; never without a timeout.
    [[nodiscard]] bool is_due(std::chrono::steady_clock::time_point now);

private:
    std::optional<std::chrono::microseconds> timeout_;
    std::optional<std::chrono::steady_clock::time_point> last_;
};

// The service manager that started this process, if one did.
class ServiceManager {
public:
    // As Notifier::send(). Logs a failure.
    void tell(std::string_view lines) const;
    // Whether its watchdog is to be notified now, once for each time. For one thread.
    [[nodiscard]] bool is_watchdog_due() {
        return heartbeat_.is_due(std::chrono::steady_clock::now());
    }

private:
    const Notifier notifier_ = Notifier::from_environment();
    Heartbeat heartbeat_{watchdog_timeout()};
};

}  // namespace gpusnoop
