// What the client of `top` makes of servers: good ones, others, and the files that it is given.
#include "exporter/cli/top/client/client.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "exporter/cli/top/client/access.h"
#include "exporter/cli/top/client/curl_client.h"
#include "exporter/cli/top/client/libcurl.h"
#include "exporter/cli/top/client/plain_client.h"
#include "exporter/http/server.h"
#include "tests/harness/machine/directory.h"
#include "tests/unit/http/http_client.h"

using namespace gpusnoop;
using namespace gpusnoop::top;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

using MakeClient = Result<std::unique_ptr<Client>> (*)(const Address &address);

Result<std::unique_ptr<Client>> by_libcurl(const Address &address) {
    return CurlClient::make(Libcurl::load().value(), address, {});
}

Result<std::unique_ptr<Client>> without_libcurl(const Address &address) {
    return PlainClient::make(address);
}

Result<Answer> fetch(MakeClient make, const Address &address) {
    const auto client = make(address);
    REQUIRE(client);
    (*client)->ask("/page?x=1");
    for (;;) {
        pollfd ready{(*client)->fd(), POLLIN, 0};
        REQUIRE(::poll(&ready, 1, 30'000) == 1);
        if (auto taken = (*client)->take()) {
            CHECK_FALSE((*client)->take());  // once
            return *std::move(taken);
        }
    }
}

Address top_at(std::uint16_t port, const std::string &path = "") {
    return Address{.host = "127.0.0.1", .port = port, .path = path};
}

// A server of one connection, which answers with these bytes; and perhaps stays until the client
// has gone.
std::string sentence_about(MakeClient make, const std::string &bytes, bool tls = false,
                           bool stays = false) {
    const Fd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    REQUIRE(::bind(listening.get(), reinterpret_cast<sockaddr *>(&any), size) == 0);
    REQUIRE(::listen(listening.get(), 1) == 0);
    REQUIRE(::getsockname(listening.get(), reinterpret_cast<sockaddr *>(&any), &size) == 0);
    std::thread server([&] {
        const Fd one(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
        std::array<char, 4096> request{};
        if (::recv(one.get(), request.data(), request.size(), 0) > 0) {
            http::test::send_bytes(one, bytes);
        }
        while (stays && ::recv(one.get(), request.data(), request.size(), 0) > 0) {
        }
    });
    Address address = top_at(ntohs(any.sin_port));
    address.tls = tls;
    const auto fetched = fetch(make, address);
    server.join();
    return fetched ? "status " + std::to_string(fetched->status) : fetched.error().message;
}

}  // namespace

TEST_CASE("a client gets whole answers, and says why there is none") {
    using namespace gpusnoop::http;
    const MakeClient make = GENERATE(by_libcurl, without_libcurl);
    const std::string large(3'000'000, 'x');
    const auto server = test::serve(
        {{"/page", test::answers(large)},
         {"/prefix/page",
          [](const http::Request &request) { return text_response(503, request.query); }},
         {"/long/page", test::answers(std::string(Client::max_bytes + 1, 'x'))}});
    const auto whole = fetch(make, top_at(server->port()));
    REQUIRE(whole);
    CHECK(whole->status == 200);
    CHECK(whole->body == large);
    const auto other = fetch(make, top_at(server->port(), "/prefix"));
    REQUIRE(other);
    CHECK(other->status == 503);
    CHECK(other->body == "x=1");
    const auto none = fetch(make, top_at(server->port(), "/none"));
    REQUIRE(none);
    CHECK(none->status == 404);
    const std::string where = "http://127.0.0.1:" + std::to_string(server->port());
    CHECK(fetch(make, top_at(server->port(), "/long")).error().message ==
          where + "/long answered more than an exporter does");
    const auto refused = [&] {
        auto closed = test::serve({});
        const std::uint16_t gone = closed->port();
        closed.reset();
        return std::pair(gone, fetch(make, top_at(gone)));
    }();
    REQUIRE_FALSE(refused.second);
    CHECK(refused.second.error().message ==
          "cannot reach http://127.0.0.1:" + std::to_string(refused.first) +
              ": Connection refused");
}

TEST_CASE("a client asks over a Unix socket") {
    const MakeClient make = GENERATE(by_libcurl, without_libcurl);
    const harness::TemporaryDirectory folder;
    const std::string path = folder / "http.sock";
    auto server = http::Server::listen("unix:" + path, {{"/page", http::test::answers("here")}});
    REQUIRE(server);
    const auto fetched = fetch(make, *parse_address("unix:" + path));
    REQUIRE(fetched);
    CHECK(fetched->body == "here");
    server->reset();
    CHECK_THAT(fetch(make, *parse_address("unix:" + path)).error().message,
               StartsWith("cannot reach unix:" + path + ": "));
}

TEST_CASE("a request that is given up is not answered, and the next one is") {
    // Over TCP, libcurl 7.88 closes a socket that is given up while it connects, and only then says
    // that it needs no watching; by then its number may be that of a socket of this server.
    const harness::TemporaryDirectory folder;
    const std::string path = folder / "http.sock";
    const auto server =
        http::Server::listen("unix:" + path, {{"/page", http::test::answers("here")}});
    REQUIRE(server);
    const MakeClient make = GENERATE(by_libcurl, without_libcurl);
    const auto client = make(*parse_address("unix:" + path));
    REQUIRE(client);
    (*client)->give_up();
    (*client)->ask("/none");
    (*client)->give_up();
    pollfd ready{(*client)->fd(), POLLIN, 0};
    (void)::poll(&ready, 1, 200);
    CHECK_FALSE((*client)->take());
    (*client)->ask("/none");
    (*client)->ask("/page");
    std::optional<Result<Answer>> taken;
    while (!taken) {
        REQUIRE(::poll(&ready, 1, 30'000) == 1);
        taken = (*client)->take();
    }
    REQUIRE(*taken);
    CHECK((*taken)->body == "here");
}

TEST_CASE("servers that speak no HTTP, or stop in the middle, are no answer") {
    const MakeClient make = GENERATE(by_libcurl, without_libcurl);
    CHECK_THAT(sentence_about(make, "SSH-2.0-OpenSSH_9.2\r\n"),
               ContainsSubstring("no HTTP answer (is it https?)"));
    CHECK_THAT(sentence_about(make, ""), ContainsSubstring("no HTTP answer"));
    CHECK_THAT(sentence_about(make, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
               ContainsSubstring("the answer was cut off"));
    CHECK(sentence_about(make, "HTTP/1.1 200 OK\r\n\r\nuntil the end") == "status 200");
    // Not followed: a login would go to somebody else.
    CHECK(sentence_about(make,
                         "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
                         "Content-Length: 0\r\n\r\n") == "status 302");
    CHECK_THAT(sentence_about(by_libcurl, "HTTP/1.1 400 Bad Request\r\n\r\n", true),
               StartsWith("cannot reach https://127.0.0.1:"));
}

TEST_CASE("without libcurl, plain requests are made, and no others") {
    const auto suits = [](const std::string &address, const Access &access = {}) {
        return PlainClient::suits(*parse_address(address), access);
    };
    for (const std::string address : {"http://127.0.0.1:19435", "localhost", "[::1]:1/prefix",
                                      "10.0.0.7", "unix:/run/gpusnoop.sock"}) {
        CAPTURE(address);
        CHECK(suits(address));
        CHECK_FALSE(suits(address, {.login_file = "login"}));
        CHECK_FALSE(suits(address, {.netrc = true}));
    }
    CHECK_FALSE(suits("https://127.0.0.1"));
    CHECK_FALSE(suits("http://gpu-node-1"));
    CHECK_FALSE(suits("unix:/" + std::string(200, 'x')));
    CHECK_THAT(sentence_about(without_libcurl,
                              "HTTP/1.1 200 OK\r\ntransfer-encoding:chunked\r\n\r\n0\r\n\r\n"),
               ContainsSubstring("its answer comes in pieces, which needs libcurl"));
}

TEST_CASE("an answer is whole when its length says so, also if the server stays") {
    const MakeClient make = GENERATE(by_libcurl, without_libcurl);
    const std::string answer = "HTTP/1.1 200 OK\r\nCONTENT-LENGTH: 5\r\n\r\nwhole";
    CHECK(sentence_about(make, answer, false, true) == "status 200");
}

TEST_CASE("a login is the first line of its file, and no error shows it") {
    const harness::TemporaryDirectory folder;
    const std::string file = folder / "login";
    const auto login_of = [&](const std::string &text) {
        std::ofstream(file) << text;
        return read_login(file);
    };
    CHECK(login_of("alice:correct horse\nbob:x\n").value() == "alice:correct horse");
    CHECK(login_of("alice:a:b\r\n").value() == "alice:a:b");
    CHECK(login_of("alice:").value() == "alice:");
    for (const std::string &wrong : {std::string(), std::string("\nalice:x"), std::string("secret"),
                                     std::string(":secret"), "a:" + std::string(5'000, 'x')}) {
        CHECK(login_of(wrong).error().message ==
              "the first line of " + file + " is not USER:PASSWORD");
    }
    const auto missing = Client::make(top_at(1), {.login_file = file + ".none"});
    REQUIRE_FALSE(missing);
    CHECK_THAT(missing.error().message, StartsWith("cannot read the login in " + file + ".none"));
}

TEST_CASE("without libcurl there is a sentence about it") {
    CHECK_THAT(Libcurl::load("libcurl-of-nobody.so.4").error().message,
               StartsWith("TLS, logins and names of hosts need libcurl (Debian, Ubuntu: libcurl4; "
                          "RHEL: libcurl): libcurl-of-nobody.so.4: "));
    CHECK_THAT(Libcurl::load("libc.so.6").error().message, ContainsSubstring("curl_easy_init"));
}
