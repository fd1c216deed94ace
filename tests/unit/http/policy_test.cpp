// How many requests of a route run, wait and share a response, and that nothing that waits has a
// thread.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "exporter/http/server.h"
#include "tests/unit/http/http_client.h"

using Catch::Matchers::StartsWith;
using gpusnoop::Fd;
using namespace gpusnoop::http;
using namespace gpusnoop::http::test;

namespace {

std::unique_ptr<Server> serve_routes(std::vector<Route> routes) {
    std::vector<Listener> listeners;
    listeners.push_back(*Listener::open("127.0.0.1:0"));
    auto server = Server::start(std::move(listeners), *Access::open(""), std::move(routes));
    REQUIRE(server);
    return *std::move(server);
}

// Sends a request, whose response is read later.
Fd policy_ask(std::uint16_t port, const std::string &target, const std::string &headers = "") {
    Fd fd = connect_to(port);
    send_bytes(fd, "GET " + target + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n");
    return fd;
}

const std::string refusal = "Too many requests at once: try again.\n";

// Waits until so many of the clients have the begin of their response.
void wait_for_answers(const std::vector<Fd> &clients, int count) {
    const auto has_answer = [](const Fd &fd) {
        char byte = 0;
        return ::recv(fd.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    };
    while (std::ranges::count_if(clients, has_answer) < count) {
        std::this_thread::yield();
    }
}

// How many clients got which body.
std::map<std::string, int> bodies_of(const std::vector<Fd> &clients) {
    std::map<std::string, int> bodies;
    for (const Fd &client : clients) {
        bodies[body_of(receive_all(client))]++;
    }
    return bodies;
}

std::ptrdiff_t threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
}

// A handler that does not return until it may.
struct Gate {
    std::atomic<int> running = 0;
    std::atomic<int> most_running = 0;
    std::atomic<int> answered = 0;
    std::atomic<bool> is_open = false;

    Response pass(const Request &request) {
        const int now = ++running;
        for (int most = most_running;
             most < now && !most_running.compare_exchange_weak(most, now);) {
        }
        is_open.wait(false);
        running--;
        answered++;
        return text_response(200, request.query);
    }
    void open() {
        is_open = true;
        is_open.notify_all();
    }
    void wait_for(int count) const {
        while (running < count) {
            std::this_thread::yield();
        }
    }
};

void allow_files(rlim_t count) {
    rlimit files{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = std::max(files.rlim_cur, std::min(count, files.rlim_max));
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
    if (files.rlim_cur < count) {
        SKIP("this process may not open so many files");
    }
}

}  // namespace

TEST_CASE("requests over a route's limits wait or are refused, and other routes are served") {
    Gate gate;
    const auto server =
        serve_routes({{.paths = {"/a", "/b"},
                       .handler = [&](const Request &request) { return gate.pass(request); },
                       .policy = {.max_running = 2, .max_waiting = 3}},
                      {.paths = {"/other"}, .handler = answers("here")}});
    std::vector<Fd> clients;
    for (int i = 0; i < 10; i++) {
        clients.push_back(policy_ask(server->port(), i % 2 == 0 ? "/a?x" : "/b?x"));
    }
    wait_for_answers(clients, 5);
    CHECK(body_of(get(server->port(), "/other")) == "here");
    CHECK(gate.answered == 0);
    gate.open();
    CHECK(bodies_of(clients) == std::map<std::string, int>{{"x", 5}, {refusal, 5}});
    CHECK(gate.most_running == 2);
}

TEST_CASE("requests that share a response get that of the first of them, and keep no thread") {
    constexpr int count = 300;
    Gate gate;
    std::atomic<int> arrived = 0;
    const auto server =
        serve_routes({{.paths = {"/page"},
                       .handler = [&](const Request &request) { return gate.pass(request); },
                       .policy = {.max_running = 1,
                                  .max_waiting = 1,
                                  .share =
                                      [&](const Request &request) {
                                          arrived++;
                                          return request.query.substr(0, 1);
                                      }}},
                      {.paths = {"/other"}, .handler = answers("here")}});
    std::vector<Fd> clients;
    clients.push_back(policy_ask(server->port(), "/page?a"));
    gate.wait_for(1);
    for (int i = 1; i < count; i++) {
        clients.push_back(policy_ask(server->port(), i % 2 == 0 ? "/page?a" : "/page?b"));
    }
    CHECK(body_of(get(server->port(), "/other")) == "here");
    // Each thread of the server may have one request on its way to its place, so most have theirs.
    while (arrived < count) {
        std::this_thread::yield();
    }
    // The third response there would be.
    CHECK_THAT(get(server->port(), "/page?c"), StartsWith("HTTP/1.1 503 "));
    gate.open();
    for (int i = 0; i < count; i++) {
        CHECK(body_of(receive_all(clients[static_cast<std::size_t>(i)])) ==
              (i % 2 == 0 ? "a" : "b"));
    }
    CHECK(gate.most_running == 1);
    CHECK(gate.answered <= 4);
}

TEST_CASE("requests over a route's limit of those that share a response are refused") {
    Gate gate;
    const auto server =
        serve_routes({{.paths = {"/page"},
                       .handler = [&](const Request &request) { return gate.pass(request); },
                       .policy = {.share = [](const Request &) { return ""; }, .max_sharing = 2}}});
    std::vector<Fd> clients;
    clients.push_back(policy_ask(server->port(), "/page?a"));
    gate.wait_for(1);
    clients.push_back(policy_ask(server->port(), "/page?b"));
    clients.push_back(policy_ask(server->port(), "/page?c"));
    wait_for_answers(clients, 1);
    CHECK(gate.answered == 0);
    gate.open();
    CHECK(bodies_of(clients) == std::map<std::string, int>{{"a", 2}, {refusal, 1}});
}

TEST_CASE("those who share a response get it as they asked for it") {
    const std::string text = large_text();
    Gate gate;
    const auto server = serve_routes({{.paths = {"/page"},
                                       .handler =
                                           [&](const Request &request) {
                                               (void)gate.pass(request);
                                               return text_response(200, text);
                                           },
                                       .policy = {.share = [](const Request &) { return ""; }}}});
    const Fd plain = policy_ask(server->port(), "/page");
    gate.wait_for(1);
    const Fd packed = policy_ask(server->port(), "/page", "Accept-Encoding: gzip\r\n");
    Fd head = connect_to(server->port());
    send_bytes(head, "HEAD /page HTTP/1.1\r\nHost: x\r\n\r\n");
    gate.open();
    CHECK(body_of(receive_all(plain)) == text);
    const std::string compressed = receive_all(packed);
    CHECK(header_of(compressed, "Content-Encoding") == "gzip");
    CHECK(body_of(compressed).size() < text.size() / 4);
    const std::string only_head = receive_all(head);
    CHECK(header_of(only_head, "Content-Length") == std::to_string(text.size()));
    CHECK(body_of(only_head).empty());
}

TEST_CASE("a server stops while requests wait") {
    Gate gate;
    auto server = serve_routes({{.paths = {"/page"}, .handler = [&](const Request &request) {
                                     return gate.pass(request);
                                 }}});
    std::vector<Fd> clients;
    for (int i = 0; i < 10; i++) {
        clients.push_back(policy_ask(server->port(), "/page"));
    }
    gate.wait_for(1);
    std::jthread opening([&] { gate.open(); });
    server.reset();
    opening.join();
    for (const Fd &client : clients) {
        (void)receive_all(client);
    }
    CHECK(gate.running == 0);
}

TEST_CASE("2000 connections that say nothing delay no request, and have no threads") {
    allow_files(3 * 2'000);
    std::thread([] {}).join();  // with the first one, the thread sanitizer starts one of its own
    const auto before = threads();
    const auto server = serve_routes({{.paths = {"/metrics"}, .handler = answers("up 1\n")}});
    std::vector<Fd> silent;
    for (int i = 0; i < 2'000; i++) {
        silent.push_back(connect_to(server->port()));
    }
    for (int i = 0; i < 20; i++) {
        CHECK(body_of(get(server->port(), "/metrics")) == "up 1\n");
    }
    CHECK(threads() - before == Server::workers + 1);
    // They are cut off in time, all of them.
    for (const Fd &fd : silent) {
        CHECK(receive_all(fd).empty());
    }
}

TEST_CASE("more connections than there may be: those that are idle for longest make room") {
    allow_files(3 * Connections::max_parked);
    const auto server = serve_routes({{.paths = {"/metrics"}, .handler = answers("up 1\n")}});
    std::vector<Fd> silent;
    for (std::size_t i = 0; i < Connections::max_parked + 50; i++) {
        silent.push_back(connect_to(server->port()));
    }
    CHECK(body_of(get(server->port(), "/metrics")) == "up 1\n");
    CHECK(receive_all(silent.front()).empty());
}

TEST_CASE("clients that do not read their pages delay nobody") {
    const std::string text(4U << 20U, 'x');
    const auto server = serve_routes({{.paths = {"/large"},
                                       .handler = answers(text),
                                       .policy = {.max_running = 2, .max_waiting = 200}},
                                      {.paths = {"/metrics"}, .handler = answers("up 1\n")}});
    std::vector<Fd> stalled;
    for (int i = 0; i < 40; i++) {
        stalled.push_back(policy_ask(server->port(), "/large"));
    }
    for (int i = 0; i < 20; i++) {
        CHECK(body_of(get(server->port(), "/metrics")) == "up 1\n");
    }
    // One that is only slow gets all of it.
    const Fd slow = policy_ask(server->port(), "/large");
    std::string received;
    std::vector<char> piece(1U << 20U);
    ssize_t n = 0;
    while ((n = ::recv(slow.get(), piece.data(), piece.size(), 0)) > 0) {
        received.append(piece.data(), static_cast<std::size_t>(n));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    CHECK(body_of(received) == text);
    // Those who take nothing are cut off. Some may be read before that, and get all.
    CHECK(std::ranges::any_of(stalled, [&](const Fd &fd) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        return body_of(receive_all(fd)) != text;
    }));
}
