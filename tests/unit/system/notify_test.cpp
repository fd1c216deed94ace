#include "exporter/system/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "exporter/base/fd.h"
#include "exporter/probes/frame/pipeline.h"

using namespace gpusnoop;
using namespace std::chrono_literals;

namespace {

// The service manager's end.
class Manager {
public:
    explicit Manager(std::string name) : name_(std::move(name)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        name_.copy(address.sun_path, name_.size());
        if (name_[0] == '@') {
            address.sun_path[0] = '\0';
        }
        const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
        REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr *>(&address), length) == 0);
    }
    ~Manager() {
        if (name_[0] == '/') {
            ::unlink(name_.c_str());
        }
    }
    Manager(const Manager &) = delete;
    Manager &operator=(const Manager &) = delete;

    // What was sent next; empty if there is nothing now.
    [[nodiscard]] std::string heard(int flags = MSG_DONTWAIT) const {
        std::array<char, 4096> datagram{};
        const ssize_t got = ::recv(socket_.get(), datagram.data(), datagram.size(), flags);
        return got > 0 ? std::string(datagram.data(), static_cast<std::size_t>(got)) : "";
    }

private:
    std::string name_;
    Fd socket_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

std::string own_path() {
    return (std::filesystem::temp_directory_path() / ("notify-" + std::to_string(::getpid())))
        .string();
}

// Of the environment, for as long as this lives.
class Variable {
public:
    Variable(const char *name, const std::string &value) : name_(name) {
        ::setenv(name, value.c_str(), 1);
    }
    ~Variable() { ::unsetenv(name_); }
    Variable(const Variable &) = delete;
    Variable &operator=(const Variable &) = delete;

private:
    const char *name_;
};

// Stops in the middle of a drain, on demand.
class StuckProbe final : public probes::Probe {
public:
    Result<> start() override { return {}; }
    void drain() override {
        std::unique_lock lock(mutex_);
        is_in_drain_ = is_to_stick_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !is_to_stick_; });
        is_in_drain_ = false;
    }
    std::vector<series::FamilySnapshot> report() override { return {}; }
    [[nodiscard]] std::map<std::string, std::uint64_t> folded() const override { return {}; }
    [[nodiscard]] probes::Health health() const override { return {}; }

    // Returns when it is stuck.
    void stick() {
        std::unique_lock lock(mutex_);
        is_to_stick_ = true;
        changed_.wait(lock, [this] { return is_in_drain_; });
    }
    void go_on() {
        const std::lock_guard lock(mutex_);
        is_to_stick_ = false;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_to_stick_ = false;
    bool is_in_drain_ = false;
};

}  // namespace

TEST_CASE("the service manager hears what is sent, by a path and by an abstract name") {
    for (const std::string &name : {own_path(), "@gpusnoop-test-" + std::to_string(::getpid())}) {
        CAPTURE(name);
        const Manager manager(name);
        const Notifier notifier(name);
        REQUIRE(notifier.send("READY=1\nSTATUS=serving"));
        CHECK(manager.heard() == "READY=1\nSTATUS=serving");
        CHECK(manager.heard().empty());
    }
}

TEST_CASE("without a service manager nothing is sent, and that is no failure") {
    const Notifier nobody("");
    CHECK(nobody.send("READY=1"));
    ::unsetenv("NOTIFY_SOCKET");
    CHECK(Notifier::from_environment().send("READY=1"));
    const Variable variable("NOTIFY_SOCKET", "/nowhere/at/all");
    CHECK(Notifier::from_environment().send("READY=1").error().code == ENOENT);
}

TEST_CASE("the service manager of the environment is told, and its watchdog is notified") {
    const Manager manager(own_path());
    const Variable socket("NOTIFY_SOCKET", own_path());
    ::unsetenv("WATCHDOG_USEC");
    ServiceManager without_watchdog;
    without_watchdog.tell("STATUS=serving");
    CHECK(manager.heard() == "STATUS=serving");
    CHECK(!without_watchdog.is_watchdog_due());
    const Variable timeout("WATCHDOG_USEC", "3600000000");
    ServiceManager with_watchdog;
    CHECK(with_watchdog.is_watchdog_due());
    CHECK(!with_watchdog.is_watchdog_due());
}

TEST_CASE(
    "a socket that is none is a failure, and a manager that does not read is not waited for") {
    CHECK(Notifier("/nowhere/at/all").send("READY=1").error().code == ENOENT);
    CHECK(Notifier("relative").send("READY=1").error().code == EINVAL);
    CHECK(Notifier("/" + std::string(200, 'x')).send("READY=1").error().code == EINVAL);
    const Manager manager(own_path());
    const Notifier notifier(own_path());
    Result<> sent;
    for (int i = 0; i < 100'000 && sent; i++) {
        sent = notifier.send("STATUS=" + std::string(1000, 'x'));
    }
    REQUIRE_FALSE(sent);
    CHECK(sent.error().code == EAGAIN);
}

TEST_CASE("the watchdog's time is this process's, or none") {
    CHECK_FALSE(watchdog_timeout());
    const Variable timeout("WATCHDOG_USEC", "30000000");
    CHECK(watchdog_timeout() == 30s);
    {
        const Variable pid("WATCHDOG_PID", std::to_string(::getpid()));
        CHECK(watchdog_timeout() == 30s);
    }
    {
        const Variable pid("WATCHDOG_PID", std::to_string(::getppid()));
        CHECK_FALSE(watchdog_timeout());
    }
    for (const std::string wrong : {"", "0", "-1", "30s", "99999999999999999999"}) {
        CAPTURE(wrong);
        const Variable other("WATCHDOG_USEC", wrong);
        CHECK_FALSE(watchdog_timeout());
    }
}

TEST_CASE("a heartbeat is due three times as often as it must be heard") {
    const std::chrono::steady_clock::time_point start{};
    Heartbeat heartbeat(30s);
    CHECK(heartbeat.is_due(start));
    CHECK_FALSE(heartbeat.is_due(start));
    CHECK_FALSE(heartbeat.is_due(start + 9s));
    CHECK(heartbeat.is_due(start + 10s));
    CHECK_FALSE(heartbeat.is_due(start + 19s));
    CHECK(heartbeat.is_due(start + 25s));
    CHECK_FALSE(heartbeat.is_due(start + 34s));
    Heartbeat none(std::nullopt);
    CHECK_FALSE(none.is_due(start));
    CHECK_FALSE(none.is_due(start + 1h));
}

TEST_CASE("a loop that is stuck shows no life, and does again when it goes on") {
    const Manager manager(own_path());
    const Notifier notifier(own_path());
    StuckProbe probe;
    Heartbeat heartbeat(3us);
    probes::Pipeline pipeline({&probe}, 1ms, [&] {
        if (heartbeat.is_due(std::chrono::steady_clock::now())) {
            (void)notifier.send("WATCHDOG=1");
        }
    });
    CHECK(manager.heard(0) == "WATCHDOG=1");
    CHECK(manager.heard(0) == "WATCHDOG=1");

    probe.stick();
    while (!manager.heard().empty()) {  // from before
    }
    std::this_thread::sleep_for(100ms);  // a hundred rounds, were there any
    CHECK(manager.heard().empty());
    // Others who ask it something do not make it look alive.
    CHECK_FALSE(pipeline.snapshot(50ms));
    CHECK(manager.heard().empty());

    probe.go_on();
    CHECK(manager.heard(0) == "WATCHDOG=1");
}
