// All clients of a server: waits for them with one descriptor each, and uses threads only for ready
// ones.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/http/connection.h"
#include "exporter/http/listener.h"

namespace gpusnoop::http {

// One thread calls serve(), others next(). A client that is silent, slow, or slow in its TLS
// handshake occupies no thread: it is parked until its socket is ready, and disconnected at its
// deadline. Over the limits, the client with the nearest deadline, which was idle longest, is
// disconnected for the new one.
class Connections {
public:
    using Clock = Connection::Clock;
    // Run by a thread of next().
    using Work = std::function<void()>;

    // The most clients parked or ready at one time, or half the process's limit of files if that is
    // less.
    static constexpr std::size_t max_parked = 4096;
    // The most of them that have begun a handshake, a request or a response: these use memory.
    static constexpr std::size_t max_begun = 512;

    // `listeners` must outlive this.
    [[nodiscard]] static Result<std::unique_ptr<Connections>> open(
        std::span<const Listener> listeners);
    // Disconnects the remaining clients.
    ~Connections() = default;
    Connections(const Connections &) = delete;
    Connections &operator=(const Connections &) = delete;

    // Accepts clients (by TLS, if `tls` is not null) and serves ready ones, until stop().
    void serve(ssl_ctx_st *tls);

    // Waits for a client whose request is here, and serves other clients meanwhile. Null after
    // stop().
    [[nodiscard]] std::unique_ptr<Connection> next();

    // Sends the connection's response.
    void send(std::unique_ptr<Connection> connection);

    // Runs `work` on a thread of next(), soon.
    void post(Work work);

    // For any thread: serve() and next() return after their current step.
    void stop();
    [[nodiscard]] bool is_stopping() const;

private:
    using Deadlines = std::set<std::pair<Clock::time_point, int>>;
    using Ready = std::variant<std::unique_ptr<Connection>, Work>;

    Connections(std::span<const Listener> listeners, Fd epoll, Fd wake);
    [[nodiscard]] Result<> watch_listeners();
    void accept_from(int listener, ssl_ctx_st *tls);
    void pause(int listener);
    bool make_room();
    [[nodiscard]] int milliseconds_to_wait();
    void make_ready(int fd);
    void cut_off_expired();
    void park(std::unique_ptr<Connection> connection, Connection::Step wait);
    [[nodiscard]] std::unique_ptr<Connection> unpark(int fd);
    [[nodiscard]] std::unique_ptr<Connection> longest_idle(const Deadlines &from);
    [[nodiscard]] bool go_on(std::unique_ptr<Connection> &connection);

    const std::span<const Listener> listeners_;
    const Fd epoll_;
    const Fd wake_;
    const std::size_t most_parked_;
    std::vector<int> unwatched_;  // listeners paused for lack of room for a client

    mutable std::mutex mutex_;  // guards the members below
    std::condition_variable changed_;
    bool is_stopping_ = false;
    struct Parked {
        std::map<int, std::unique_ptr<Connection>> connections;  // by descriptor
        Deadlines silent;                                        // of these connections
        Deadlines begun;
    };
    Parked parked_;
    Clock::time_point serve_wakes_ = Clock::time_point::max();
    std::deque<Ready> ready_;
};

}  // namespace gpusnoop::http
