#include "exporter/http/connections.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <exception>

#include "exporter/base/log.h"

namespace gpusnoop::http {

namespace {

using Step = Connection::Step;

// Clients accepted in a row: between two rows, the other clients are served.
constexpr int accepted_at_once = 64;
constexpr std::chrono::milliseconds without_descriptors{100};

std::size_t most_parked() {
    rlimit files{};
    const bool is_known = ::getrlimit(RLIMIT_NOFILE, &files) == 0;
    return is_known ? std::min<std::size_t>(Connections::max_parked, files.rlim_cur / 2)
                    : Connections::max_parked;
}

bool lacks_resources(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

bool watch(const Fd &epoll, int operation, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    return ::epoll_ctl(epoll.get(), operation, fd, &event) == 0;
}

void send_at_once(int fd) {
    const int on = 1;
    // On a Unix socket this fails, which is harmless.
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Connections::Connections(std::span<const Listener> listeners, Fd epoll, Fd wake)
    : listeners_(listeners),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      most_parked_(most_parked()) {}

Result<std::unique_ptr<Connections>> Connections::open(std::span<const Listener> listeners) {
    Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
    Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!epoll || !wake) {
        return fail_errno("the HTTP server's sockets");
    }
    std::unique_ptr<Connections> connections(
        new Connections(listeners, std::move(epoll), std::move(wake)));
    if (const auto watched = connections->watch_listeners(); !watched) {
        return tl::unexpected<Error>(watched.error());
    }
    return connections;
}

Result<> Connections::watch_listeners() {
    bool is_watched = watch(epoll_, EPOLL_CTL_ADD, wake_.get(), EPOLLIN);
    for (const Listener &listener : listeners_) {
        is_watched = is_watched && watch(epoll_, EPOLL_CTL_ADD, listener.fd(), EPOLLIN);
    }
    return is_watched ? Result<>() : fail_errno("the HTTP server's sockets");
}

void Connections::serve(ssl_ctx_st *tls) {
    std::array<epoll_event, 64> events{};
    while (!is_stopping()) {
        const int count =
            ::epoll_wait(epoll_.get(), events.data(), events.size(), milliseconds_to_wait());
        {
            const std::lock_guard lock(mutex_);
            serve_wakes_ = Clock::time_point::min();  // it is awake
        }
        for (const int listener : std::exchange(unwatched_, {})) {
            (void)watch(epoll_, EPOLL_CTL_MOD, listener, EPOLLIN);
        }
        for (int i = 0; i < count; i++) {
            const int fd = events.at(static_cast<std::size_t>(i)).data.fd;
            if (fd == wake_.get()) {
                std::uint64_t times = 0;
                (void)::read(fd, &times, sizeof times);
            } else if (std::ranges::any_of(listeners_,
                                           [&](const auto &one) { return one.fd() == fd; })) {
                accept_from(fd, tls);
            } else {
                make_ready(fd);
            }
        }
        cut_off_expired();
    }
}

// Closes the client that was idle longest. False: no client is idle, all are ready.
bool Connections::make_room() {
    return longest_idle(parked_.silent.empty() ? parked_.begun : parked_.silent) != nullptr;
}

// Makes the listener's new clients wait for a moment.
void Connections::pause(int listener) {
    unwatched_.push_back(listener);
    (void)watch(epoll_, EPOLL_CTL_MOD, listener, 0);
}

void Connections::accept_from(int listener, ssl_ctx_st *tls) {
    for (int i = 0; i < accepted_at_once; i++) {
        {
            const std::lock_guard lock(mutex_);
            if (parked_.connections.size() + ready_.size() >= most_parked_ && !make_room()) {
                return pause(listener);
            }
        }
        Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd && lacks_resources(errno)) {
            // The client that was idle longest makes room; if no client is idle, new ones wait for
            // a moment.
            const std::lock_guard lock(mutex_);
            if (!make_room()) {
                return pause(listener);
            }
            continue;
        }
        if (!fd) {
            return;
        }
        send_at_once(fd.get());
        const int number = fd.get();
        try {
            auto connection = std::make_unique<Connection>(std::move(fd), tls, Clock::now());
            if (watch(epoll_, EPOLL_CTL_ADD, number, 0)) {
                park(std::move(connection), Step::wait_readable);
            }
        } catch (const std::exception &error) {  // out of memory: this client is disconnected
            log::debug("http", {{"detail", error.what()}});
        }
    }
}

int Connections::milliseconds_to_wait() {
    const std::lock_guard lock(mutex_);
    serve_wakes_ = Clock::time_point::max();
    for (const Deadlines *deadlines : {&parked_.silent, &parked_.begun}) {
        if (!deadlines->empty()) {
            serve_wakes_ = std::min(serve_wakes_, deadlines->begin()->first);
        }
    }
    const auto now = Clock::now();
    if (!unwatched_.empty()) {
        serve_wakes_ = std::min(serve_wakes_, now + without_descriptors);
    }
    if (serve_wakes_ == Clock::time_point::max()) {
        return -1;
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(serve_wakes_ - now);
    return static_cast<int>(std::max<std::int64_t>(wait.count(), 0));
}

void Connections::make_ready(int fd) {
    {
        const std::lock_guard lock(mutex_);
        auto connection = unpark(fd);
        if (connection == nullptr) {
            return;  // disconnected meanwhile
        }
        ready_.emplace_back(std::move(connection));
    }
    changed_.notify_one();
}

void Connections::cut_off_expired() {
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    for (const Deadlines *deadlines : {&parked_.silent, &parked_.begun}) {
        while (!deadlines->empty() && deadlines->begin()->first <= now) {
            (void)unpark(deadlines->begin()->second);
        }
    }
}

// The socket is watched last, because it may be ready immediately.
void Connections::park(std::unique_ptr<Connection> connection, Step wait) {
    const std::uint32_t events =
        EPOLLONESHOT | (wait == Step::wait_readable ? EPOLLIN | EPOLLRDHUP : EPOLLOUT);
    const int fd = connection->fd();
    const auto deadline = connection->deadline();
    const std::lock_guard lock(mutex_);
    if (is_stopping_) {
        return;
    }
    Deadlines &deadlines = connection->has_begun() ? parked_.begun : parked_.silent;
    if (parked_.connections.size() >= most_parked_) {
        (void)make_room();
    }
    if (&deadlines == &parked_.begun && parked_.begun.size() >= max_begun) {
        (void)longest_idle(parked_.begun);
    }
    const auto entry = deadlines.emplace(deadline, fd).first;
    try {
        parked_.connections[fd] = std::move(connection);
    } catch (...) {
        deadlines.erase(entry);
        throw;
    }
    (void)watch(epoll_, EPOLL_CTL_MOD, fd, events);
    if (deadline < serve_wakes_) {
        const std::uint64_t once = 1;
        (void)::write(wake_.get(), &once, sizeof once);
    }
}

std::unique_ptr<Connection> Connections::unpark(int fd) {
    const auto found = parked_.connections.find(fd);
    if (found == parked_.connections.end()) {
        return nullptr;
    }
    auto connection = std::move(found->second);
    parked_.connections.erase(found);
    (connection->has_begun() ? parked_.begun : parked_.silent).erase({connection->deadline(), fd});
    return connection;
}

std::unique_ptr<Connection> Connections::longest_idle(const Deadlines &from) {
    return from.empty() ? nullptr : unpark(from.begin()->second);
}

// Continues with a client. True: its request is here.
bool Connections::go_on(std::unique_ptr<Connection> &connection) {
    const Step step = connection->advance();
    if (step == Step::request) {
        return true;
    }
    if (step == Step::closed) {
        connection.reset();
    } else {
        park(std::move(connection), step);
    }
    return false;
}

void Connections::send(std::unique_ptr<Connection> connection) {
    (void)go_on(connection);
}

std::unique_ptr<Connection> Connections::next() {
    for (;;) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return is_stopping_ || !ready_.empty(); });
        if (is_stopping_) {
            return nullptr;
        }
        Ready ready = std::move(ready_.front());
        ready_.pop_front();
        lock.unlock();
        try {
            if (const auto *work = std::get_if<Work>(&ready)) {
                (*work)();
            } else if (auto &connection = std::get<0>(ready);
                       connection->deadline() > Clock::now() && go_on(connection)) {
                return std::move(connection);
            }
        } catch (const std::exception &error) {  // out of memory: this client is disconnected
            log::debug("http", {{"detail", error.what()}});
        }
    }
}

void Connections::post(Work work) {
    {
        const std::lock_guard lock(mutex_);
        ready_.emplace_back(std::move(work));
    }
    changed_.notify_one();
}

void Connections::stop() {
    {
        const std::lock_guard lock(mutex_);
        is_stopping_ = true;
        ready_.clear();
    }
    changed_.notify_all();
    const std::uint64_t once = 1;
    (void)::write(wake_.get(), &once, sizeof once);
}

bool Connections::is_stopping() const {
    const std::lock_guard lock(mutex_);
    return is_stopping_;
}

}  // namespace gpusnoop::http
