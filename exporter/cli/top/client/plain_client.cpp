#include "exporter/cli/top/client/plain_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

namespace gpusnoop::top {

namespace {

constexpr std::time_t patience_seconds = 5;
constexpr std::size_t max_head_bytes = 64 * 1024;
constexpr std::string_view end_of_head = "\r\n\r\n";

struct Target {
    sockaddr_storage address{};
    socklen_t size = 0;
};

template <typename Sockaddr>
Target target_of(const Sockaddr &address) {
    Target target{.size = sizeof(address)};
    std::memcpy(&target.address, &address, sizeof(address));
    return target;
}

// Nothing if the host is a name.
std::optional<Target> target_at(const Address &address) {
    if (!address.unix_path.empty()) {
        sockaddr_un local{};
        local.sun_family = AF_UNIX;
        if (address.unix_path.size() >= sizeof(local.sun_path)) {
            return std::nullopt;
        }
        address.unix_path.copy(local.sun_path, sizeof(local.sun_path) - 1);
        return target_of(local);
    }
    const std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
        return target_of(v4);
    }
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
        return target_of(v6);
    }
    return std::nullopt;
}

// The value of a header, of which the name is in small letters; nothing without it.
std::optional<std::string> header_of(std::string_view head, std::string_view name) {
    std::string small(head);
    std::ranges::transform(small, small.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t at = small.find("\r\n" + std::string(name) + ":");
    if (at == std::string::npos) {
        return std::nullopt;
    }
    const std::size_t begin = small.find_first_not_of(' ', at + name.size() + 3);
    return small.substr(begin, small.find("\r\n", begin) - begin);
}

std::optional<std::size_t> number_in(std::string_view text) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                    : std::nullopt;
}

// Of a body, if the head says it.
std::optional<std::size_t> length_in(std::string_view head) {
    const auto length = header_of(head, "content-length");
    return length ? number_in(*length) : std::nullopt;
}

}  // namespace

bool PlainClient::suits(const Address &address, const Access &access) {
    return !address.tls && access.login_file.empty() && !access.netrc &&
           target_at(address).has_value();
}

Result<std::unique_ptr<Client>> PlainClient::make(Address address) {
    std::unique_ptr<PlainClient> client(new PlainClient(std::move(address)));
    if (!client->epoll_ || !client->timer_) {
        return fail_errno("prepare requests");
    }
    return client;
}

PlainClient::PlainClient(Address address)
    : address_(std::move(address)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = timer_.get()}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event);
}

void PlainClient::ask(const std::string &target) {
    give_up();
    const std::string url = address_.url();
    const std::string host = url.substr(7, url.find('/', 7) - 7);  // behind "http://"
    request_ = "GET " + address_.path + target + " HTTP/1.1\r\nHost: " + host +
               "\r\nAccept: */*\r\nConnection: close\r\n\r\n";
    set_timer({.tv_sec = patience_seconds, .tv_nsec = 0});
    connect();
}

void PlainClient::give_up() {
    socket_.reset();
    has_ended_ = false;
    received_.clear();
    failure_.clear();
    set_timer({});  // never
}

void PlainClient::connect() {
    const auto target = target_at(address_);
    if (!target) {
        return fail_with("it is a name, which needs libcurl");
    }
    socket_ =
        Fd(::socket(target->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket_ || (::connect(socket_.get(), reinterpret_cast<const sockaddr *>(&target->address),
                               target->size) != 0 &&
                     errno != EINPROGRESS)) {
        return fail_with(std::strerror(errno));
    }
    epoll_event event{.events = EPOLLOUT, .data = {.fd = socket_.get()}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket_.get(), &event);
}

void PlainClient::set_timer(timespec after) {
    const itimerspec when{.it_interval = {}, .it_value = after};
    ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void PlainClient::wait_for(std::uint32_t events) {
    epoll_event event{.events = events, .data = {.fd = socket_.get()}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
}

// The caller hears of it from the next take(), for which the timer makes fd() readable.
void PlainClient::fail_with(std::string reason) {
    failure_ = std::move(reason);
    set_timer({.tv_sec = 0, .tv_nsec = 1});
}

void PlainClient::send() {
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        return fail_with(std::strerror(error));
    }
    const ssize_t sent = ::send(socket_.get(), request_.data(), request_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        return fail_with(std::strerror(errno));
    }
    request_.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
    if (request_.empty()) {
        wait_for(EPOLLIN);
    }
}

void PlainClient::receive() {
    std::array<char, 64 * 1024> piece{};
    while (received_.size() <= max_bytes + max_head_bytes) {
        const ssize_t got = ::recv(socket_.get(), piece.data(), piece.size(), 0);
        if (got <= 0) {
            has_ended_ = got == 0 || errno != EAGAIN;
            return;
        }
        received_.append(piece.data(), static_cast<std::size_t>(got));
    }
    has_ended_ = true;
}

bool PlainClient::has_all() const {
    const std::size_t end = received_.find(end_of_head);
    if (end == std::string::npos) {
        return has_ended_;
    }
    const auto length = length_in(std::string_view(received_).substr(0, end + 2));
    return has_ended_ || (length && received_.size() - end - end_of_head.size() >= *length);
}

Result<Answer> PlainClient::answer() {
    constexpr std::size_t status_at = 9;  // behind "HTTP/1.1 "
    constexpr std::size_t status_bytes = 3;
    const auto unreached = [&](const std::string &reason) {
        return fail("cannot reach " + address_.text() + ": " + reason);
    };
    if (!failure_.empty()) {
        return unreached(failure_);
    }
    const std::size_t end = received_.find(end_of_head);
    const auto status = received_.starts_with("HTTP/1.") && received_.size() > status_at
                            ? number_in(received_.substr(status_at, status_bytes))
                            : std::nullopt;
    if (end == std::string::npos || !status) {
        return unreached("there was no HTTP answer (is it https?)");
    }
    const std::string head = received_.substr(0, end + 2);
    if (header_of(head, "transfer-encoding")) {
        return unreached("its answer comes in pieces, which needs libcurl");
    }
    std::string body = received_.substr(end + end_of_head.size());
    const auto length = length_in(head);
    if (std::max(body.size(), length.value_or(0)) > max_bytes) {
        return fail(address_.text() + " answered more than an exporter does");
    }
    if (length && body.size() < *length) {
        return unreached("the answer was cut off");
    }
    body.resize(length.value_or(body.size()));
    return Answer{static_cast<int>(*status), std::move(body)};
}

std::optional<Result<Answer>> PlainClient::take() {
    std::array<epoll_event, 2> events{};
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count && failure_.empty(); i++) {
        if (events.at(static_cast<std::size_t>(i)).data.fd == timer_.get()) {
            failure_ = "it did not answer within 5 seconds";
        } else if (!request_.empty()) {
            send();
        } else {
            receive();
        }
    }
    if (failure_.empty() && !has_all()) {
        return std::nullopt;
    }
    auto ended = answer();
    give_up();
    return ended;
}

}  // namespace gpusnoop::top
