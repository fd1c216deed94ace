#include "tests/e2e/webhook.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace e2e {

namespace {

// The whole of a request that says its Content-Length, or what came of it.
std::string read_request(int connection) {
    std::string request;
    std::array<char, 65536> part;
    while (true) {
        const std::size_t end = request.find("\r\n\r\n");
        if (end != std::string::npos) {
            const std::size_t at = request.find("Content-Length: ");
            const std::size_t length =
                at < end ? std::strtoul(request.c_str() + at + 16, nullptr, 10) : 0;
            if (request.size() >= end + 4 + length) {
                return request;
            }
        }
        const ssize_t n = ::read(connection, part.data(), part.size());
        if (n <= 0) {
            return request;
        }
        request.append(part.data(), static_cast<std::size_t>(n));
    }
}

}  // namespace

Webhook::Webhook() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0);
    REQUIRE(::listen(listener_.get(), 8) == 0);
    thread_ = std::jthread([this](const std::stop_token &stop) { serve(stop); });
}

Webhook::~Webhook() = default;

std::uint16_t Webhook::port() const {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr *>(&address), &size);
    return ntohs(address.sin_port);
}

void Webhook::serve(const std::stop_token &stop) {
    while (!stop.stop_requested()) {
        pollfd event{listener_.get(), POLLIN, 0};
        if (::poll(&event, 1, 20) > 0) {
            answer(gpusnoop::Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
        }
    }
}

void Webhook::answer(const gpusnoop::Fd &connection) {
    const timeval most{5, 0};  // of a client that says nothing more
    ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    take(read_request(connection.get()));
    const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    (void)::send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
}

void Webhook::take(const std::string &request) {
    const std::size_t body = request.find("\r\n\r\n");
    if (!request.starts_with("POST /") || body == std::string::npos) {
        return;
    }
    const auto json = nlohmann::json::parse(request.substr(body + 4), nullptr, false);
    if (json.is_discarded()) {
        return;
    }
    const std::lock_guard lock(mutex_);
    for (const auto &alert : json["alerts"]) {
        notified_.push_back({request.substr(6, request.find(' ', 6) - 6), alert["status"],
                             alert["labels"].get<harness::Labels>(), alert["annotations"]});
    }
}

std::vector<Notified> Webhook::notified(const std::string &status,
                                        const harness::Labels &labels) const {
    const std::lock_guard lock(mutex_);
    std::vector<Notified> found;
    std::ranges::copy_if(notified_, std::back_inserter(found), [&](const Notified &one) {
        return one.status == status && std::ranges::all_of(labels, [&](const auto &label) {
                   const auto own = one.labels.find(label.first);
                   return own != one.labels.end() && own->second == label.second;
               });
    });
    return found;
}

std::string Webhook::text() const {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const Notified &one : notified_) {
        text += one.receiver + ": " + one.status;
        for (const auto &[name, value] : one.labels) {
            text += " " + name + "=" + value;
        }
        text += "\n";
    }
    return text;
}

}  // namespace e2e
