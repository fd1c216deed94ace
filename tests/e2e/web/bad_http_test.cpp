// Clients that do not speak HTTP, and too many that do.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <thread>

#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// A connection of which the test writes every byte.
class Connection {
public:
    explicit Connection(std::uint16_t port)
        : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(::connect(socket_, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0);
    }
    ~Connection() { ::close(socket_); }
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    void send(const std::string &bytes) const {
        // The other side may have had enough.
        (void)::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    void finish() const { ::shutdown(socket_, SHUT_WR); }
    // Until the other side closes.
    [[nodiscard]] std::string receive() const {
        std::string all;
        std::array<char, 4096> part;
        ssize_t got = 0;
        while ((got = ::recv(socket_, part.data(), part.size(), 0)) > 0) {
            all.append(part.data(), static_cast<std::size_t>(got));
        }
        return all;
    }

private:
    int socket_;
};

bool is_refusal(const std::string &answer) {
    return answer.empty() || answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 5");
}

}  // namespace

TEST_CASE("requests that are none are refused, and the next one is served", "[e2e]") {
    require_bpf();
    const Exporter exporter;
    std::mt19937_64 random(1);
    for (int i = 0; i < 50; i++) {
        const Connection connection(exporter.port());
        std::string bytes(1 + random() % 5000, '\0');
        std::ranges::generate(bytes, [&] { return static_cast<char>(random()); });
        connection.send(bytes);
        connection.finish();
        CHECK(is_refusal(connection.receive()));
    }
    const std::vector<std::string> requests = {
        "GET /metrics HTTP/1.1\r\nX: " + std::string(1'000'000, 'x') + "\r\n\r\n",
        "GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\n\r\n",
        "\r\n\r\n",
        "GET /metrics HTTP/9.9\r\n\r\n",
        "GET\r\n\r\n",
        "\x16\x03\x01\x02" + std::string(512, '\0'),  // how TLS begins
    };
    for (const std::string &request : requests) {
        INFO(request.substr(0, 40));
        const Connection connection(exporter.port());
        connection.send(request);
        connection.finish();
        CHECK(is_refusal(connection.receive()));
    }
    {
        // One that never finishes, and one that says nothing, do not keep others waiting.
        std::vector<std::unique_ptr<Connection>> silent;
        for (int i = 0; i < 4; i++) {
            silent.push_back(std::make_unique<Connection>(exporter.port()));
            silent.back()->send("GET /metrics HTTP/1.1\r\nHost:");
        }
        CHECK(exporter.scrape().sum("gpusnoop_probe_up") == 1);
    }
    CHECK(exporter.scrape().sum("gpusnoop_probe_up") == 1);
    CHECK(exporter.log().find("level=ERROR") == std::string::npos);
    CHECK(exporter.log().find("level=WARN msg=\"http\"") == std::string::npos);
}

TEST_CASE("other methods and other paths are refused", "[e2e]") {
    require_bpf();
    const Exporter exporter;
    for (const auto *method : {"POST", "PUT", "DELETE"}) {
        INFO(method);
        const HttpAnswer answer =
            http(exporter.port(), "/metrics", method, "Content-Length: 0\r\n");
        CHECK(answer.status == 405);
        CHECK(answer.headers.find("Allow: GET, HEAD") != std::string::npos);
    }
    for (const auto *path : {"/metricsfoo", "/metrics/", "/metric", "/Metrics", "/-/", "/%6detrics",
                             "/metrics%00", "/../etc/passwd", "/etc/passwd"}) {
        INFO(path);
        CHECK(http(exporter.port(), path).status == 404);
    }
    CHECK(http(exporter.port(), "/metrics?collect[]=cuda").status == 200);
    CHECK(http(exporter.port(), "/-/healthy").status == 200);
    CHECK(http(exporter.port(), "/-/ready").status == 200);
}

TEST_CASE("200 scrapes at the same time all get the whole page", "[e2e]") {
    require_bpf();
    const Exporter exporter;
    const Process workload({standin("workload"), "--seconds", "1000", "--name", "scraped"});
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    std::atomic<int> whole = 0;
    {
        std::vector<std::jthread> clients;
        for (int i = 0; i < 200; i++) {
            clients.emplace_back([&] {
                const HttpAnswer answer = http(exporter.port(), "/metrics");
                const bool all =
                    answer.status == 200 && answer.body.ends_with('\n') &&
                    answer.headers.find("Content-Length: " + std::to_string(answer.body.size())) !=
                        std::string::npos;
                whole += all ? 1 : 0;
            });
        }
    }
    CHECK(whole == 200);
    CHECK(exporter.scrape().sum("gpusnoop_probe_up") == 1);
}
