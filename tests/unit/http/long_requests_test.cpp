// Requests whose responses take long: no thread waits for them, and their clients may go away.
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "exporter/http/access.h"
#include "exporter/http/route.h"
#include "exporter/http/server.h"
#include "tests/unit/http/http_client.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using gpusnoop::Fd;
using namespace gpusnoop;
using namespace gpusnoop::http;
using namespace gpusnoop::http::test;

namespace {

// The requests that a route has begun to answer.
class Begun {
public:
    void add(const Request &request, Pending pending) {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
        pending_.push_back(std::move(pending));
    }
    std::vector<Pending> take(std::size_t count) {
        for (;;) {
            {
                const std::lock_guard lock(mutex_);
                if (pending_.size() >= count) {
                    return std::exchange(pending_, {});
                }
            }
            std::this_thread::yield();
        }
    }
    Request last() {
        const std::lock_guard lock(mutex_);
        return requests_.back();
    }

private:
    std::mutex mutex_;
    std::vector<Request> requests_;
    std::vector<Pending> pending_;
};

std::unique_ptr<Server> serve(Begun &begun) {
    std::vector<Listener> listeners;
    listeners.push_back(*Listener::open("127.0.0.1:0"));
    std::vector<Route> routes;
    routes.push_back({.paths = {"/long"}, .begin = [&begun](const auto &request, auto pending) {
                          begun.add(request, std::move(pending));
                      }});
    routes.push_back({.paths = {"/fails"},
                      .begin = [](const auto &, auto) { throw std::runtime_error("not today"); }});
    routes.push_back(
        {.paths = {"/short"}, .handler = [](const auto &) { return text_response(200, "short"); }});
    auto server = Server::start(std::move(listeners), *Access::open(""), std::move(routes));
    REQUIRE(server);
    return *std::move(server);
}

Fd long_requests_ask(const Server &server, const std::string &target,
                     const std::string &method = "GET", const std::string &headers = "") {
    Fd fd = connect_to(server.port());
    send_bytes(fd, method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
    return fd;
}

bool has_gone(int socket) {
    pollfd client{.fd = socket, .events = POLLRDHUP, .revents = 0};
    return ::poll(&client, 1, 20'000) == 1;
}

}  // namespace

TEST_CASE("more long requests than threads wait, and others are answered meanwhile") {
    Begun begun;
    const auto server = serve(begun);
    std::vector<Fd> clients;
    for (int i = 0; i < 3 * Server::workers; i++) {
        clients.push_back(long_requests_ask(*server, "/long"));
    }
    auto pending = begun.take(clients.size());
    for (int i = 0; i < 20; i++) {
        CHECK(body_of(receive_all(long_requests_ask(*server, "/short"))) == "short");
    }
    for (const Pending &one : pending) {
        one.answer(text_response(200, "long"));
    }
    for (const Fd &client : clients) {
        CHECK(body_of(receive_all(client)) == "long");
    }
}

TEST_CASE("a client that goes away is noticed, and one without an answer is disconnected") {
    Begun begun;
    const auto server = serve(begun);
    Fd client = long_requests_ask(*server, "/long");
    auto pending = begun.take(1);
    CHECK_FALSE([&] {
        pollfd one{.fd = pending.front().client, .events = POLLRDHUP, .revents = 0};
        return ::poll(&one, 1, 0) == 1;
    }());
    client = Fd();
    CHECK(has_gone(pending.front().client));
    pending.front().answer(text_response(200, "too late"));

    const Fd other = long_requests_ask(*server, "/long");
    (void)begun.take(1);  // and forgets it
    CHECK(receive_all(other).empty());
}

TEST_CASE("a long request takes only GET, and an exception is a 500") {
    Begun begun;
    const auto server = serve(begun);
    for (const std::string method : {"HEAD", "POST"}) {
        const std::string answer = receive_all(long_requests_ask(*server, "/long", method));
        CHECK_THAT(answer, StartsWith("HTTP/1.1 405"));
        CHECK_THAT(answer, ContainsSubstring("Allow: GET\r\n"));
    }
    CHECK_THAT(receive_all(long_requests_ask(*server, "/fails")), StartsWith("HTTP/1.1 500"));
}

TEST_CASE("a long answer is compressed once") {
    Begun begun;
    const auto server = serve(begun);
    for (const bool is_compressed : {false, true}) {
        const Fd client = long_requests_ask(*server, "/long", "GET", "Accept-Encoding: gzip\r\n");
        Response response = text_response(200, std::string(5000, 'x'));
        response.is_compressed = is_compressed;
        begun.take(1).front().answer(response);
        const std::string answer = receive_all(client);
        CHECK((answer.find("Content-Encoding: gzip\r\n") == std::string::npos) == is_compressed);
    }
}

TEST_CASE("a client of the loopback is trusted") {
    Begun begun;
    const auto server = serve(begun);
    const Fd client = long_requests_ask(*server, "/long");
    (void)begun.take(1);
    CHECK(begun.last().is_trusted);

    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
    const Fd one(ends[0]);
    const Fd other(ends[1]);
    CHECK(is_local_peer(one.get()));
    CHECK_FALSE(is_local_peer(Fd(::socket(AF_INET, SOCK_STREAM, 0)).get()));  // not connected
    CHECK_FALSE(is_local_peer(-1));
}

TEST_CASE("a client of an IPv6 socket is local by ::1 and by 127.0.0.1") {
    for (const auto &[at, to] : {std::pair("::1", "::1"), std::pair("::", "::ffff:127.0.0.2")}) {
        const Fd listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const int off = 0;
        ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        sockaddr_in6 address{};
        address.sin6_family = AF_INET6;
        ::inet_pton(AF_INET6, at, &address.sin6_addr);
        if (::bind(listener.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) {
            SKIP("this machine has no IPv6");
        }
        REQUIRE(::listen(listener.get(), 1) == 0);
        socklen_t size = sizeof address;
        ::getsockname(listener.get(), reinterpret_cast<sockaddr *>(&address), &size);
        ::inet_pton(AF_INET6, to, &address.sin6_addr);
        const Fd client(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
        REQUIRE(::connect(client.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) ==
                0);
        CHECK(is_local_peer(Fd(::accept(listener.get(), nullptr, nullptr)).get()));
    }
}

TEST_CASE("who demands a login or a verified certificate knows every client") {
    config::WebConfig web;
    CHECK_FALSE(demands_identity(web));
    web.tls.emplace();
    web.tls->client_auth = config::ClientAuth::require_any;
    CHECK_FALSE(demands_identity(web));
    web.tls->client_auth = config::ClientAuth::verify_if_given;
    CHECK_FALSE(demands_identity(web));
    web.tls->client_auth = config::ClientAuth::require_and_verify;
    CHECK(demands_identity(web));
    web.tls.reset();
    web.users["alice"] = "$2b$...";
    CHECK(demands_identity(web));
}
