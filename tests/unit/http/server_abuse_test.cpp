// The server against clients that are broken, slow, many, or hostile.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <chrono>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "exporter/http/server.h"
#include "tests/unit/http/http_client.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using gpusnoop::Fd;
using namespace gpusnoop::http;
using namespace gpusnoop::http::test;

TEST_CASE("a handler that throws is a 500 and harms nobody else") {
    const auto server = serve(
        {{"/std", [](const Request &) -> Response { throw std::runtime_error("secret detail"); }},
         {"/other", [](const Request &) -> Response { throw 42; }},
         {"/fine", answers("fine")}});
    CHECK_THAT(get(server->port(), "/std"), StartsWith("HTTP/1.1 500 "));
    CHECK_THAT(get(server->port(), "/std"), !ContainsSubstring("secret"));
    CHECK_THAT(get(server->port(), "/other"), StartsWith("HTTP/1.1 500 "));
    CHECK(body_of(get(server->port(), "/fine")) == "fine");
}

TEST_CASE("broken requests are refused and the next one is served") {
    const auto server = serve({{"/", answers("fine")}});
    std::string all_bytes;
    for (int c = 0; c < 256; ++c) {
        all_bytes += static_cast<char>(c);
    }
    const std::vector<std::string> requests = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / FTP/1.1\r\n\r\n",
        "get / HTTP/1.1\r\n\r\n",
        "FROB / HTTP/1.1\r\n\r\n",
        "GET nowhere HTTP/1.1\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET ws://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nNoColon\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /" + std::string(10000, 'a') + " HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nX: " + std::string(100000, 'a') + "\r\n\r\n",
        "\x16\x03\x01\x02\x01" + all_bytes + "\r\n\r\n",
        all_bytes + "\r\n\r\n",
    };
    for (const std::string &request : requests) {
        INFO(request.substr(0, 80));
        const std::string response = send_request(server->port(), request);
        // Some are harmless and may be answered; what they must not do is hang or crash.
        CHECK((response.empty() || response.starts_with("HTTP/1.1 ")));
        CHECK(body_of(get(server->port(), "/")) == "fine");
    }
    CHECK_THAT(get(server->port(), "/", "X: " + std::string(8000, 'a') + "\r\n"),
               !ContainsSubstring("fine"));
}

TEST_CASE("random bytes never stop the server") {
    const auto server = serve({{"/", answers("fine")}});
    std::mt19937 random(1);  // NOLINT: the same bytes in every run
    for (int round = 0; round < 200; ++round) {
        std::string request = "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n";
        for (int change = 0; change < 4; ++change) {
            request[random() % (request.size() - 4)] = static_cast<char>(random() % 256);
        }
        (void)send_request(server->port(), request);
    }
    CHECK(body_of(get(server->port(), "/")) == "fine");
}

TEST_CASE("what follows a request on its connection is not answered") {
    std::atomic<int> calls = 0;
    const auto server = serve({{"/", [&calls](const Request &) {
                                    ++calls;
                                    return text_response(200, "once");
                                }}});
    const std::string one = "GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n";
    const std::string response = send_request(server->port(), one + one + "junk \xFF\r\n\r\n");
    CHECK(body_of(response) == "once");
    CHECK(calls == 1);
}

TEST_CASE("twenty scrapes at once all get the whole page") {
    const std::string text = large_text();
    const auto server = serve({{"/metrics", answers(text)}});
    std::atomic<int> whole = 0;
    std::vector<std::thread> scrapers;
    for (int i = 0; i < 20; ++i) {
        scrapers.emplace_back([&] {
            for (int n = 0; n < 3; ++n) {
                whole += body_of(get(server->port(), "/metrics")) == text ? 1 : 0;
            }
        });
    }
    for (std::thread &scraper : scrapers) {
        scraper.join();
    }
    CHECK(whole == 60);
}

TEST_CASE("clients that dawdle do not stop a scrape") {
    auto server = serve({{"/metrics", answers("up 1\n")}});
    std::vector<Fd> slow;
    const auto add_slow = [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            slow.push_back(connect_to(server->port()));
            send_bytes(slow.back(), "GET /metrics HTTP/1.1\r\nX-Slow: ");
        }
    };
    SECTION("as many as there may be, and none had to go for it") {
        add_slow(Connections::max_begun - 1);
        CHECK(body_of(get(server->port(), "/metrics")) == "up 1\n");
        for (const Fd &fd : slow) {
            char byte = 0;
            CHECK(::recv(fd.get(), &byte, 1, MSG_DONTWAIT) == -1);
            CHECK((errno == EAGAIN || errno == EWOULDBLOCK));
        }
    }
    SECTION("more than the limit: the first are cut off") {
        add_slow(Connections::max_begun + 20);
        CHECK(body_of(get(server->port(), "/metrics")) == "up 1\n");
        CHECK(receive_all(slow.front()).empty());
        CHECK(body_of(get(server->port(), "/metrics")) == "up 1\n");
    }
    SECTION("and are cut off in time") {
        add_slow(7);
        for (const Fd &fd : slow) {
            CHECK(receive_all(fd).empty());
        }
    }
    SECTION("and do not stop the server from stopping") {
        add_slow(7);
        server.reset();
        CHECK_THAT(receive_all(slow.front()), !ContainsSubstring("200"));
    }
}

TEST_CASE("a client that leaves halfway through a page harms nobody") {
    const std::string text = large_text() + std::string(8U << 20U, 'x');
    const auto server = serve({{"/large", answers(text)}, {"/", answers("fine")}});
    for (int i = 0; i < 20; ++i) {
        const Fd fd = connect_to(server->port());
        send_bytes(fd, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
        char byte = 0;
        REQUIRE(::recv(fd.get(), &byte, 1, 0) == 1);
    }
    CHECK(body_of(get(server->port(), "/")) == "fine");
}

TEST_CASE("a body that nobody asked for is not waited for") {
    const auto server = serve({{"/", answers("fine")}});
    const Fd fd = connect_to(server->port());
    send_bytes(fd, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
    std::atomic<bool> done = false;
    std::thread dripping([&] {
        while (!done) {
            send_bytes(fd, "x");
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
    });
    CHECK(body_of(receive_all(fd)) == "fine");
    // Closed, not merely silent.
    char byte = 0;
    errno = 0;
    CHECK(::recv(fd.get(), &byte, 1, 0) <= 0);
    CHECK(errno != EAGAIN);
    done = true;
    dripping.join();
}
