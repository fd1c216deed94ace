// Requests as proxies, browsers and careless clients send them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "exporter/http/civetweb_hooks.h"
#include "exporter/http/request_parts.h"
#include "exporter/http/server.h"
#include "tests/unit/http/http_client.h"

using Catch::Matchers::StartsWith;
using namespace gpusnoop::http;
using namespace gpusnoop::http::test;

namespace {

std::string origin_form(std::string target) {
    return gpusnoop_origin_form(target.data());
}

}  // namespace

TEST_CASE("a target with a scheme and a host is answered as its path is") {
    Request seen;
    const auto server =
        serve({{"/", answers("root")}, {"/metrics", [&seen](const Request &request) {
                                            seen = request;
                                            return text_response(200, "up 1\n");
                                        }}});
    const std::string port = std::to_string(server->port());
    for (const std::string &host :
         {"http://127.0.0.1:" + port, std::string("http://node"), std::string("http://node:1"),
          std::string("HTTP://[::1]:19435"), std::string("https://user@node.example")}) {
        INFO(host);
        CHECK(body_of(get(server->port(), host + "/metrics?a=b%20c")) == "up 1\n");
        CHECK(seen.path == "/metrics");
        CHECK(seen.query == "a=b%20c");
        CHECK(body_of(get(server->port(), host)) == "root");
        CHECK(body_of(get(server->port(), host + "?a")) == "root");
        CHECK_THAT(get(server->port(), host + "/none"), StartsWith("HTTP/1.1 404 "));
    }
    for (const std::string target : {"ftp://node/metrics", "http:///metrics", "http:", "metrics"}) {
        INFO(target);
        CHECK_THAT(get(server->port(), target), StartsWith("HTTP/1.1 400 "));
    }
}

TEST_CASE("the path of a target is found in its place") {
    CHECK(origin_form("/a?b") == "/a?b");
    CHECK(origin_form("*") == "*");
    CHECK(origin_form("http://h/") == "/");
    CHECK(origin_form("http://h") == "/");
    CHECK(origin_form("http://h?q=/x") == "/?q=/x");
    CHECK(origin_form("http://") == "://");
    CHECK(origin_form("https://?q") == "s://?q");
    CHECK(origin_form("httpx://h/") == "httpx://h/");
    CHECK(origin_form("") == "");
}

TEST_CASE("what is too long is refused by what is too long of it") {
    const auto server = serve({{"/", answers("fine")}});
    CHECK_THAT(get(server->port(), "/" + std::string(5'000, 'a')), StartsWith("HTTP/1.1 414 "));
    CHECK_THAT(get(server->port(), "/", "X: " + std::string(5'000, 'a') + "\r\n"),
               StartsWith("HTTP/1.1 431 "));
    std::string many;
    for (int i = 0; i < 1'000; i++) {
        many += "A" + std::to_string(i) + ": b\r\n";
    }
    CHECK_THAT(get(server->port(), "/", many), StartsWith("HTTP/1.1 431 "));
    CHECK_THAT(get(server->port(), "/", "X: " + std::string(3'000, 'a') + "\r\n"),
               StartsWith("HTTP/1.1 200 "));
}

TEST_CASE("a page of another site cannot have a browser do something here") {
    auto server =
        Server::listen("127.0.0.1:0", {{"/", answers("page")}}, {{"/-/reload", answers("done")}});
    REQUIRE(server);
    const auto post = [&](const std::string &headers) {
        return send_request((*server)->port(),
                            "POST /-/reload HTTP/1.1\r\nHost: node:19435\r\n" + headers + "\r\n");
    };
    CHECK(body_of(post("")) == "done");
    CHECK(body_of(post("Origin: http://node:19435\r\n")) == "done");
    for (const std::string origin :
         {"http://evil.example", "http://node", "http://node:1943", "null",
          "http://evil.example/http://node:19435", "node:19435"}) {
        INFO(origin);
        CHECK_THAT(post("Origin: " + origin + "\r\n"), StartsWith("HTTP/1.1 403 Forbidden\r\n"));
    }
    // A page may be shown anywhere: what it says is not the other site's to read.
    CHECK(body_of(get((*server)->port(), "/", "Origin: http://evil.example\r\n")) == "page");
}

TEST_CASE("an origin is the host's own with and without its scheme's port") {
    CHECK_FALSE(is_foreign_origin("", "node"));
    CHECK_FALSE(is_foreign_origin("http://node", "node"));
    CHECK_FALSE(is_foreign_origin("http://node", "NODE:80"));
    CHECK_FALSE(is_foreign_origin("https://node", "node:443"));
    CHECK_FALSE(is_foreign_origin("https://node:8443", "node:8443"));
    CHECK_FALSE(is_foreign_origin("http://[::1]:19435", "[::1]:19435"));
    CHECK(is_foreign_origin("http://node", "node:443"));
    CHECK(is_foreign_origin("http://node", ""));
    CHECK(is_foreign_origin("http://", "node"));
    CHECK(is_foreign_origin("https://node.evil", "node"));
    CHECK(is_foreign_origin("file://node", "node"));
}
