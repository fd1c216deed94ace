// What the client of `top` makes of servers: good ones, others, and the files that it is given.
#include "exporter/cli/top/client/client.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "exporter/cli/top/client/access.h"
#include "exporter/cli/top/client/libcurl.h"
#include "exporter/http/server.h"
#include "tests/harness/machine/directory.h"
#include "tests/unit/http/http_client.h"

using namespace gpusnoop;
using namespace gpusnoop::top;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

Result<Answer> fetch(const Address &address, const Access &access = {}) {
    const auto client = Client::make(address, access);
    if (!client) {
        return tl::unexpected(client.error());
    }
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

// A server of one connection, which answers with these bytes.
std::string sentence_about(const std::string &bytes, bool tls = false) {
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
    });
    Address address = top_at(ntohs(any.sin_port));
    address.tls = tls;
    const auto fetched = fetch(address);
    server.join();
    return fetched ? "status " + std::to_string(fetched->status) : fetched.error().message;
}

}  // namespace

TEST_CASE("a client gets whole answers, and says why there is none") {
    using namespace gpusnoop::http;
    const std::string large(3'000'000, 'x');
    const auto server = test::serve(
        {{"/page", test::answers(large)},
         {"/prefix/page",
          [](const http::Request &request) { return text_response(503, request.query); }},
         {"/long/page", test::answers(std::string(Client::max_bytes + 1, 'x'))}});
    const auto whole = fetch(top_at(server->port()));
    REQUIRE(whole);
    CHECK(whole->status == 200);
    CHECK(whole->body == large);
    const auto other = fetch(top_at(server->port(), "/prefix"));
    REQUIRE(other);
    CHECK(other->status == 503);
    CHECK(other->body == "x=1");
    const auto none = fetch(top_at(server->port(), "/none"));
    REQUIRE(none);
    CHECK(none->status == 404);
    const std::string where = "http://127.0.0.1:" + std::to_string(server->port());
    CHECK(fetch(top_at(server->port(), "/long")).error().message ==
          where + "/long answered more than an exporter does");
    const auto refused = [] {
        auto closed = test::serve({});
        const std::uint16_t gone = closed->port();
        closed.reset();
        return std::pair(gone, fetch(top_at(gone)));
    }();
    REQUIRE_FALSE(refused.second);
    CHECK(refused.second.error().message ==
          "cannot reach http://127.0.0.1:" + std::to_string(refused.first) +
              ": Connection refused");
}

TEST_CASE("a client asks over a Unix socket") {
    const harness::TemporaryDirectory folder;
    const std::string path = folder / "http.sock";
    auto server = http::Server::listen("unix:" + path, {{"/page", http::test::answers("here")}});
    REQUIRE(server);
    const auto fetched = fetch(*parse_address("unix:" + path));
    REQUIRE(fetched);
    CHECK(fetched->body == "here");
    server->reset();
    CHECK_THAT(fetch(*parse_address("unix:" + path)).error().message,
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
    const auto client = Client::make(*parse_address("unix:" + path), {});
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
    CHECK_THAT(sentence_about("SSH-2.0-OpenSSH_9.2\r\n"),
               ContainsSubstring("no HTTP answer (is it https?)"));
    CHECK_THAT(sentence_about(""), ContainsSubstring("no HTTP answer"));
    CHECK_THAT(sentence_about("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
               ContainsSubstring("the answer was cut off"));
    CHECK(sentence_about("HTTP/1.1 200 OK\r\n\r\nuntil the end") == "status 200");
    // Not followed: a login would go to somebody else.
    CHECK(sentence_about("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
                         "Content-Length: 0\r\n\r\n") == "status 302");
    CHECK_THAT(sentence_about("HTTP/1.1 400 Bad Request\r\n\r\n", true),
               StartsWith("cannot reach https://127.0.0.1:"));
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
               StartsWith("top, why and trace --in-flight need libcurl (Debian, Ubuntu: libcurl4; "
                          "RHEL: libcurl): "
                          "libcurl-of-nobody.so.4: "));
    CHECK_THAT(Libcurl::load("libc.so.6").error().message, ContainsSubstring("curl_easy_init"));
}
