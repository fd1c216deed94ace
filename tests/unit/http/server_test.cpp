#include "exporter/http/server.h"

#include <zlib.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <string>

#include "exporter/http/request_parts.h"
#include "exporter/system/listen_address.h"
#include "tests/unit/http/http_client.h"

using Catch::Matchers::StartsWith;
using gpusnoop::Fd;
using namespace gpusnoop::http;
using namespace gpusnoop::http::test;

namespace {

std::string gunzip(std::string_view bytes) {
    std::string out(8U << 20U, '\0');
    z_stream stream{};
    REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
    std::string in(bytes);
    stream.next_in = reinterpret_cast<Bytef *>(in.data());
    stream.avail_in = static_cast<uInt>(in.size());
    stream.next_out = reinterpret_cast<Bytef *>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    CHECK(inflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    inflateEnd(&stream);
    return out;
}

}  // namespace

TEST_CASE("a page is served with the headers it needs") {
    const auto server = serve({{"/metrics", [](const Request &) {
                                    Response response = text_response(200, "up 1\n");
                                    response.content_type = "text/plain; version=0.0.4";
                                    return response;
                                }}});
    const std::string response = get(server->port(), "/metrics");
    CHECK_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
    CHECK(header_of(response, "Content-Type") == "text/plain; version=0.0.4");
    CHECK(header_of(response, "Content-Length") == "5");
    CHECK(header_of(response, "Connection") == "close");
    CHECK(header_of(response, "Cache-Control") == "no-store");
    CHECK(header_of(response, "Vary") == "Accept-Encoding");
    CHECK(header_of(response, "X-Content-Type-Options") == "nosniff");
    CHECK(header_of(response, "Content-Encoding").empty());
    CHECK(body_of(response) == "up 1\n");
}

TEST_CASE("a response can say that browsers may keep it") {
    const auto server = serve({{"/style", [](const Request &) {
                                    Response response = text_response(200, "p{}");
                                    response.cache_control = "private, max-age=60";
                                    return response;
                                }}});
    const std::string response = get(server->port(), "/style?v=1");
    CHECK(header_of(response, "Cache-Control") == "private, max-age=60");
}

TEST_CASE("the handler sees the request") {
    Request seen;
    const auto server = serve({{"/x", [&seen](const Request &request) {
                                    seen = request;
                                    return Response{};
                                }}});
    const std::string response =
        get(server->port(), "/x?a=%20b&c", "Accept: text/plain;q=0.5\r\nAccept-Encoding: gzip\r\n");
    CHECK_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
    CHECK(header_of(response, "Content-Length") == "0");
    CHECK(seen.method == "GET");
    CHECK(seen.path == "/x");
    CHECK(seen.query == "a=%20b&c");
    CHECK(seen.accept == "text/plain;q=0.5");
    CHECK(seen.accepts_gzip);
}

TEST_CASE("only the exact path is served") {
    const auto server = serve({{"/metrics", answers("m")}, {"/", answers("root")}});
    CHECK(body_of(get(server->port(), "/")) == "root");
    CHECK(body_of(get(server->port(), "/metrics?x")) == "m");
    for (const std::string target :
         {"/metricsfoo", "/metrics/", "/metrics/foo", "/metric", "/metrics%00", "/%6Detrics",
          "/etc/passwd", "/../etc/passwd"}) {
        INFO(target);
        CHECK_THAT(get(server->port(), target), StartsWith("HTTP/1.1 404 "));
    }
    // Other ways to write it.
    for (const std::string target : {"//metrics", "/./metrics", "/x/../metrics"}) {
        INFO(target);
        CHECK(body_of(get(server->port(), target)) == "m");
    }
}

TEST_CASE("other methods are refused") {
    std::atomic<int> calls = 0;
    const auto server = serve({{"/metrics", [&calls](const Request &) {
                                    ++calls;
                                    return text_response(200, "m");
                                }}});
    for (const std::string method : {"POST", "PUT", "DELETE", "PATCH"}) {
        INFO(method);
        const std::string response =
            send_request(server->port(), method + " /metrics HTTP/1.1\r\nHost: x\r\n" +
                                             "Content-Length: 3\r\n\r\nabc");
        CHECK_THAT(response, StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"));
        CHECK(header_of(response, "Allow") == "GET, HEAD");
    }
    CHECK_THAT(send_request(server->port(),
                            "OPTIONS /metrics HTTP/1.1\r\nHost: x\r\nOrigin: http://evil\r\n"
                            "Access-Control-Request-Method: GET\r\n\r\n"),
               StartsWith("HTTP/1.1 405 "));
    CHECK(calls == 0);
}

TEST_CASE("an action takes POST and nothing else") {
    std::atomic<int> calls = 0;
    auto server = Server::listen("127.0.0.1:0", {{"/page", answers("page")}},
                                 {{"/action", [&calls](const Request &request) {
                                       ++calls;
                                       CHECK(request.method == "POST");
                                       return text_response(500, "it failed\n");
                                   }}});
    REQUIRE(server);
    const auto port = (*server)->port();
    for (const std::string method : {"GET", "HEAD", "PUT", "DELETE"}) {
        INFO(method);
        const std::string response =
            send_request(port, method + " /action HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK_THAT(response, StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"));
        CHECK(header_of(response, "Allow") == "POST");
    }
    CHECK(calls == 0);
    const std::string answer =
        send_request(port, "POST /action HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    CHECK_THAT(answer, StartsWith("HTTP/1.1 500 "));
    CHECK(body_of(answer) == "it failed\n");
    CHECK(calls == 1);
    const std::string elsewhere =
        send_request(port, "POST /page HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    CHECK_THAT(elsewhere, StartsWith("HTTP/1.1 405 "));
    CHECK(header_of(elsewhere, "Allow") == "GET, HEAD");
    CHECK_THAT(send_request(port, "POST /none HTTP/1.1\r\nHost: x\r\n\r\n"),
               StartsWith("HTTP/1.1 404 "));
}

TEST_CASE("HEAD is GET without the body") {
    const auto server = serve({{"/large", answers(large_text())}});
    for (const std::string headers : {"", "Accept-Encoding: gzip\r\n"}) {
        INFO(headers);
        const std::string whole = get(server->port(), "/large", headers);
        const std::string head =
            send_request(server->port(), "HEAD /large HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n");
        CHECK(body_of(head).empty());
        CHECK(head == whole.substr(0, whole.find("\r\n\r\n") + 4));
        CHECK(header_of(head, "Content-Length") == std::to_string(body_of(whole).size()));
    }
}

TEST_CASE("large pages are compressed for those who take it") {
    const std::string text = large_text();
    const auto server = serve({{"/large", answers(text)}, {"/small", answers("small")}});
    const std::string packed = get(server->port(), "/large", "Accept-Encoding: deflate, gzip\r\n");
    CHECK(header_of(packed, "Content-Encoding") == "gzip");
    CHECK(header_of(packed, "Content-Length") == std::to_string(body_of(packed).size()));
    CHECK(body_of(packed).size() < text.size() / 4);
    CHECK(gunzip(body_of(packed)) == text);

    const std::string plain = get(server->port(), "/large", "Accept-Encoding: gzip;q=0\r\n");
    CHECK(header_of(plain, "Content-Encoding").empty());
    CHECK(body_of(plain) == text);

    const std::string small = get(server->port(), "/small", "Accept-Encoding: gzip\r\n");
    CHECK(header_of(small, "Content-Encoding").empty());
    CHECK(body_of(small) == "small");
}

TEST_CASE("Accept-Encoding is read as the standard says") {
    CHECK(accepts_gzip("gzip"));
    CHECK(accepts_gzip("br;q=1.0, GZIP ; q=0.1"));
    CHECK(accepts_gzip("*"));
    CHECK(accepts_gzip("identity;q=0,gzip"));
    CHECK_FALSE(accepts_gzip(""));
    CHECK_FALSE(accepts_gzip("gzipped, br"));
    CHECK_FALSE(accepts_gzip("gzip;q=0"));
    CHECK_FALSE(accepts_gzip("gzip; Q=0.000, *"));
    CHECK_FALSE(accepts_gzip("*;q=0"));
    CHECK_FALSE(accepts_gzip(",;,;;,"));
    CHECK_FALSE(accepts_gzip("gzip;q=0;a;b, br;q=0;;c"));
}

TEST_CASE("a busy port is one clear sentence") {
    const auto first = serve({});
    const std::string port = std::to_string(first->port());
    for (const std::string &address : {"127.0.0.1:" + port, ":" + port}) {
        const auto second = Server::listen(address, {});
        REQUIRE_FALSE(second);
        CHECK(second.error().message == "cannot listen on " + address + ": address already in use");
        CHECK(second.error().code == EADDRINUSE);
    }
}

TEST_CASE("a port is free again when its server is gone") {
    auto first = serve({{"/", answers("1")}});
    const std::string address = "127.0.0.1:" + std::to_string(first->port());
    CHECK(body_of(get(first->port(), "/")) == "1");
    first.reset();
    const auto second = Server::listen(address, {{"/", answers("2")}});
    REQUIRE(second);
    CHECK(body_of(get((*second)->port(), "/")) == "2");
}

TEST_CASE("addresses to listen on") {
    using gpusnoop::parse_listen_address;
    CHECK(parse_listen_address(":19435")->host.empty());
    CHECK(parse_listen_address(":19435")->port == 19435);
    CHECK(parse_listen_address("0.0.0.0:0")->host == "0.0.0.0");
    CHECK(parse_listen_address("localhost:1")->host == "127.0.0.1");
    CHECK(parse_listen_address("[::1]:9")->host == "::1");
    CHECK(parse_listen_address("[::1]:9")->ipv6);
    for (const std::string text :
         {"", ":", "19435", ":65536", ":-1", ":+1", ":01", ":1x", ": 1", "::1:9", "[::1]", "[::1]9",
          "[]:9", "[127.0.0.1]:9", "host.example:9", "1.2.3:9", "1.2.3.4:9s", "x/tmp/sock"}) {
        INFO(text);
        CHECK_FALSE(parse_listen_address(text));
    }
    CHECK_FALSE(parse_listen_address(std::string("127.0.0.1\0x:9", 13)));
    CHECK(Server::listen("here", {}).error().message ==
          "\"here\" is not an address to listen on: expected :PORT, ADDRESS:PORT, [IPV6]:PORT or "
          "unix:/PATH");
}

TEST_CASE("an address that is not this machine's is one clear sentence") {
    const auto server = Server::listen("192.0.2.1:0", {});
    REQUIRE_FALSE(server);
    CHECK(server.error().message ==
          "cannot listen on 192.0.2.1:0: cannot assign requested address");
}

TEST_CASE("a port alone is served on IPv4, and on IPv6 where there is any") {
    const auto server = Server::listen(":0", {{"/", answers("both")}});
    REQUIRE(server);
    CHECK(body_of(get((*server)->port(), "/")) == "both");

    const Fd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons((*server)->port());
    address.sin6_addr = in6addr_loopback;
    const auto only_v6 = Server::listen("[::1]:0", {});
    if (!fd || !only_v6) {
        SKIP("no IPv6 here");
    }
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0);
    send_bytes(fd, "GET / HTTP/1.0\r\n\r\n");
    CHECK(body_of(receive_all(fd)) == "both");
}
