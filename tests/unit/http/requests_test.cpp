// Requests as proxies, browsers and careless clients send them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <string>

#include "exporter/http/civetweb_hooks.h"
#include "exporter/http/request_parts.h"
#include "exporter/http/server.h"
#include "tests/unit/http/http_client.h"

using Catch::Matchers::StartsWith;
using gpusnoop::http::parse_query;
using namespace gpusnoop::http;
using namespace gpusnoop::http::test;

namespace {

using Values = std::map<std::string, std::string>;

std::string error_of(std::string_view query) {
    const auto values = parse_query(query);
    return values ? "" : values.error().message;
}

}  // namespace

TEST_CASE("a query is values by name", "[http_query]") {
    CHECK(parse_query("").value() == Values{});
    CHECK(parse_query("pid=12&comm=train").value() == Values{{"pid", "12"}, {"comm", "train"}});
    CHECK(parse_query("&&a=1&").value() == Values{{"a", "1"}});
    CHECK(parse_query("a&b=").value() == Values{{"a", ""}, {"b", ""}});
    CHECK(parse_query("a=b=c").value() == Values{{"a", "b=c"}});
    CHECK(parse_query("=x").value() == Values{{"", "x"}});
    CHECK(parse_query("A=1&a=2").value() == Values{{"A", "1"}, {"a", "2"}});
}

TEST_CASE("escapes in a query are decoded once", "[http_query]") {
    CHECK(parse_query("comm=a%20b+c").value() == Values{{"comm", "a b c"}});
    CHECK(parse_query("%63omm=%3D%26%2b%C3%a9").value() == Values{{"comm", "=&+\xC3\xA9"}});
    CHECK(parse_query("a=%2520").value() == Values{{"a", "%20"}});
    CHECK(parse_query("a=%00%ff").value() == Values{{"a", std::string("\0\xFF", 2)}});
}

TEST_CASE("what is wrong with a query is one clear sentence", "[http_query]") {
    CHECK(error_of("a=%") == "after % two hexadecimal digits must follow, not \"\"");
    CHECK(error_of("a=%4") == "after % two hexadecimal digits must follow, not \"4\"");
    CHECK(error_of("a=%zz1") == "after % two hexadecimal digits must follow, not \"zz\"");
    CHECK(error_of("a=%4x") == "after % two hexadecimal digits must follow, not \"4x\"");
    CHECK(error_of("a=%-1") == "after % two hexadecimal digits must follow, not \"-1\"");
    CHECK(error_of("a=%4&b=1") == "after % two hexadecimal digits must follow, not \"4\"");
    CHECK(error_of("%=1") == "after % two hexadecimal digits must follow, not \"\"");
    CHECK(error_of("a=1&b=2&%61=3") == "duplicate parameter \"a\"");
    CHECK(error_of("\xFF=1&%ff=1") == "duplicate parameter \"\xEF\xBF\xBD\"");
    const std::string name(4000, 'x');
    CHECK(error_of(name + "&" + name).size() < 200);
}

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
