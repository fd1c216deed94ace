// Which clients are on this machine, and what the others are refused.
#include "exporter/http/access.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <string>
#include <utility>

#include "exporter/base/fd.h"
#include "exporter/http/request_parts.h"
#include "exporter/http/server.h"
#include "tests/unit/http/http_client.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using gpusnoop::Fd;
using namespace gpusnoop::http;
using namespace gpusnoop::http::test;

namespace {

// A datagram socket that is connected to the address: it has a peer, and nothing is sent.
Fd connected_to(const char *address) {
    sockaddr_in6 six{};
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(9);
    if (::inet_pton(AF_INET, address, &four.sin_addr) == 1) {
        Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        return ::connect(fd.get(), reinterpret_cast<sockaddr *>(&four), sizeof four) == 0
                   ? std::move(fd)
                   : Fd();
    }
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(9);
    REQUIRE(::inet_pton(AF_INET6, address, &six.sin6_addr) == 1);
    Fd fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return ::connect(fd.get(), reinterpret_cast<sockaddr *>(&six), sizeof six) == 0 ? std::move(fd)
                                                                                    : Fd();
}

std::unique_ptr<Server> with_private_page() {
    auto listener = Listener::open("127.0.0.1:0");
    REQUIRE(listener);
    auto access = Access::open("");
    REQUIRE(access);
    std::vector<Listener> listeners;
    listeners.push_back(*std::move(listener));
    auto server =
        Server::start(std::move(listeners), *std::move(access),
                      {{.paths = {"/private"}, .handler = answers("secret"), .is_private = true},
                       {.paths = {"/public"}, .handler = [](const Request &request) {
                            return text_response(200, request.is_trusted ? "trusted" : "stranger");
                        }}});
    REQUIRE(server);
    return *std::move(server);
}

}  // namespace

TEST_CASE("clients at loopback addresses and Unix sockets are on this machine", "[peer]") {
    for (const char *address : {"127.0.0.1", "::1", "::ffff:127.0.0.1"}) {
        if (const Fd fd = connected_to(address)) {  // a machine may lack IPv6
            INFO(address);
            CHECK(is_local_peer(fd.get()));
        }
    }
    std::array<int, 2> pair{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
    const Fd one(pair[0]);
    const Fd other(pair[1]);
    CHECK(is_local_peer(one.get()));
}

TEST_CASE("clients at other addresses are not, nor is what is no connection", "[peer]") {
    for (const char *address :
         {"192.0.2.1", "127.0.0.6", "2001:db8::1", "::ffff:192.0.2.1", "::ffff:127.0.0.6"}) {
        if (const Fd fd = connected_to(address)) {  // a machine may lack a route
            INFO(address);
            CHECK_FALSE(is_local_peer(fd.get()));
        }
    }
    const Fd unconnected(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK_FALSE(is_local_peer(unconnected.get()));
    CHECK_FALSE(is_local_peer(-1));
}

TEST_CASE("a private page answers clients on this machine, and not what a proxy forwards",
          "[peer]") {
    const auto server = with_private_page();
    CHECK(body_of(get(server->port(), "/private")) == "secret");
    CHECK(body_of(get(server->port(), "/public")) == "trusted");
    for (const std::string header :
         {"X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1", "X-Real-IP: 192.0.2.1",
          "Via: 1.1 proxy", "x-forwarded-for: 127.0.0.1"}) {
        INFO(header);
        const std::string answer = get(server->port(), "/private", header + "\r\n");
        CHECK_THAT(answer, StartsWith("HTTP/1.1 403 "));
        CHECK_THAT(body_of(answer), StartsWith("Ask on the node itself, at 127.0.0.1: "));
        CHECK_THAT(answer, ContainsSubstring("--web.enable-api"));
        CHECK(answer.find("secret") == std::string::npos);
        CHECK(body_of(get(server->port(), "/public", header + "\r\n")) == "stranger");
    }
}

TEST_CASE("a private page is not for a site that has its name lead to this machine", "[peer]") {
    for (const char *host :
         {"", "localhost", "LOCALHOST:19435", "127.0.0.1:19435", "[::1]:19435"}) {
        INFO(host);
        CHECK(is_address_or_localhost(host));
    }
    for (const char *host :
         {"node", "evil.example:19435", "127.0.0.1.evil.example", "localhost.x"}) {
        INFO(host);
        CHECK_FALSE(is_address_or_localhost(host));
    }
    const auto server = with_private_page();
    const auto ask = [&](const std::string &host) {
        return send_request(server->port(), "GET /private HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    };
    CHECK_THAT(ask("localhost:19435"), StartsWith("HTTP/1.1 200 "));
    CHECK_THAT(ask("evil.example:19435"), StartsWith("HTTP/1.1 403 "));
}

TEST_CASE("the host of an absolute target counts, not the header", "[peer]") {
    CHECK(target_host("http://node:19435/metrics?a=http://x") == "node:19435");
    CHECK(target_host("HTTPS://user:secret@[::1]:19435?a") == "[::1]:19435");
    CHECK(target_host("http://localhost@evil.example") == "evil.example");
    CHECK(target_host("/metrics?a=http://x").empty());
    const auto server = with_private_page();
    const auto ask = [&](const std::string &target, const std::string &host) {
        return send_request(server->port(),
                            "GET " + target + "/private HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    };
    for (const char *local : {"http://localhost:19435", "https://127.0.0.1", "http://[::1]:1"}) {
        INFO(local);
        CHECK(body_of(ask(local, "localhost")) == "secret");
        CHECK(body_of(ask(local, "evil.example")) == "secret");
    }
    for (const char *foreign : {"http://evil.example", "HTTPS://evil.example:443",
                                "http://localhost@evil.example", "http://localhost.x:19435"}) {
        INFO(foreign);
        CHECK_THAT(ask(foreign, "localhost"), StartsWith("HTTP/1.1 403 "));
    }
    CHECK(body_of(ask("", "localhost")) == "secret");  // a worker forgets the target before
}

TEST_CASE("a request that says twice who sends it is refused", "[peer]") {
    const auto server = with_private_page();
    for (const std::string header : {"Host: localhost", "Host: evil.example", "host: localhost",
                                     "Origin: null\r\norigin: http://localhost",
                                     "Authorization: Basic YTpi\r\nAuthorization: Basic YTpj",
                                     "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site"}) {
        INFO(header);
        CHECK_THAT(get(server->port(), "/private", header + "\r\n"),
                   StartsWith("HTTP/1.1 400 Bad Request\r\n"));
    }
    CHECK(body_of(get(server->port(), "/private", "Accept: a\r\nAccept: b\r\n")) == "secret");
}
