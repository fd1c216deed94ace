// The web configuration at work: what changes in its files, and the server that asks it.
#include "exporter/http/access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "exporter/base/fd.h"
#include "exporter/base/log.h"
#include "tests/harness/machine/directory.h"
#include "tests/unit/http/http_client.h"

using namespace gpusnoop;
using namespace gpusnoop::http;
using namespace gpusnoop::http::test;
using Catch::Matchers::StartsWith;

namespace {

const std::string alice =
    "basic_auth_users: {alice: $2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e}\n";
const std::string alices_login = "Authorization: Basic YWxpY2U6Y29ycmVjdCBob3JzZQ==\r\n";

struct Files {
    Files() {
        log = std::tmpfile();
        REQUIRE(log != nullptr);
        log::setup(log::Level::info, log::Format::logfmt, log);
    }
    ~Files() {
        log::setup(log::Level::info, log::Format::logfmt);
        std::fclose(log);
    }
    Files(const Files &) = delete;
    Files &operator=(const Files &) = delete;

    // In the place of what is there, as tools do that have certificates to keep.
    void write(const std::string &text) const {
        std::ofstream(directory / "new") << text;
        std::filesystem::rename(directory / "new", web());
    }
    [[nodiscard]] std::string web() const { return directory / "web.yaml"; }
    [[nodiscard]] std::size_t logged(const std::string &text) const {
        std::rewind(log);
        std::string all;
        std::array<char, 4096> part{};
        while (const std::size_t n = std::fread(part.data(), 1, part.size(), log)) {
            all.append(part.data(), n);
        }
        std::size_t times = 0;
        for (std::size_t at = 0; (at = all.find(text, at)) != std::string::npos; at++) {
            times++;
        }
        return times;
    }

    harness::TemporaryDirectory directory;
    std::FILE *log = nullptr;
};

std::unique_ptr<Server> serve_with(std::unique_ptr<Access> access) {
    std::vector<Listener> listeners;
    listeners.push_back(*Listener::open("127.0.0.1:0"));
    auto server =
        Server::start(std::move(listeners), std::move(access),
                      {{.paths = {"/metrics"}, .handler = answers("up 1\n")},
                       {.paths = {"/-/healthy"}, .handler = answers("Healthy.\n"), .is_open = true},
                       {.paths = {"/-/reload"}, .handler = answers(""), .is_action = true}});
    REQUIRE(server);
    return *std::move(server);
}

std::string post(std::uint16_t port, const std::string &path, const std::string &headers = "") {
    return send_request(port, "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n");
}

}  // namespace

TEST_CASE("all but what is open needs a login") {
    const Files files;
    files.write(alice + "http_server_config: {headers: {X-Frame-Options: deny}}\n");
    const auto server = serve_with(*Access::open(files.web()));
    for (const std::string path : {"/metrics", "/", "/none", "/-/reload", "/-/healthy/",
                                   "/-/healthyx", "//metrics", "/-/../metrics"}) {
        INFO(path);
        for (const std::string &headers :
             {std::string(), std::string("Authorization: Basic YWxpY2U6eA==\r\n")}) {
            const std::string refusal = get(server->port(), path, headers);
            CHECK_THAT(refusal, StartsWith("HTTP/1.1 401 Unauthorized\r\n"));
            CHECK(header_of(refusal, "WWW-Authenticate") == "Basic realm=\"gpusnoop_exporter\"");
            CHECK(header_of(refusal, "X-Frame-Options") == "deny");
            CHECK(body_of(refusal) == "Unauthorized\n");
        }
    }
    CHECK_THAT(post(server->port(), "/-/reload"), StartsWith("HTTP/1.1 401 "));
    CHECK_THAT(post(server->port(), "/-/reload", alices_login), StartsWith("HTTP/1.1 200 "));
    CHECK(body_of(get(server->port(), "/metrics", alices_login)) == "up 1\n");
    CHECK(header_of(get(server->port(), "/metrics", alices_login), "X-Frame-Options") == "deny");
    CHECK_THAT(get(server->port(), "/none", alices_login), StartsWith("HTTP/1.1 404 "));
    CHECK(body_of(get(server->port(), "/-/healthy")) == "Healthy.\n");
}

TEST_CASE("a flood of wrong passwords is turned away, and a known login is not") {
    const Files files;
    // Whoever does not exist takes as long as the dearest hash.
    files.write(alice.substr(0, alice.find('}')) + ", bob: $2y$10$" + std::string(53, 'a') + "}\n");
    const auto server = serve_with(*Access::open(files.web()));
    REQUIRE(body_of(get(server->port(), "/metrics", alices_login)) == "up 1\n");
    std::vector<Fd> clients;
    for (int i = 0; i < 64; i++) {
        clients.push_back(connect_to(server->port()));
        send_bytes(clients.back(),
                   "GET /metrics HTTP/1.1\r\nAuthorization: Basic bWFsbG9yeTp4\r\n\r\n");
    }
    CHECK(body_of(get(server->port(), "/metrics", alices_login)) == "up 1\n");
    std::map<std::string, std::size_t> statuses;
    for (const Fd &client : clients) {
        statuses[receive_all(client).substr(9, 3)]++;
    }
    CHECK(statuses["401"] + statuses["503"] == clients.size());
    CHECK(statuses["401"] > Server::max_waiting_logins);  // these, and the one that is checked
    CHECK(statuses["503"] > 0);
}

TEST_CASE("a web configuration that changes holds from the next request on") {
    using namespace std::chrono_literals;
    const Files files;
    files.write("");
    const auto server = serve_with(*Access::open(files.web(), 0s));
    const auto status = [&](const std::string &headers = "") {
        return get(server->port(), "/metrics", headers).substr(9, 3);
    };
    CHECK(status() == "200");
    files.write(alice);
    CHECK(status() == "401");
    CHECK(status(alices_login) == "200");
    CHECK(files.logged("web configuration reloaded") == 1);

    // What is wrong leaves things as they are, and is said once.
    files.write("basic_auth_users: {alice: x}\n");
    CHECK(status() == "401");
    CHECK(status(alices_login) == "200");
    CHECK(files.logged("the previous one stays in use") == 1);
    CHECK(files.logged(files.web() + ":1:27: basic_auth_users.alice: must be a bcrypt hash") == 1);
    std::filesystem::remove(files.web());
    CHECK(status() == "401");
    CHECK(status(alices_login) == "200");
    CHECK(files.logged("the previous one stays in use") == 2);
    // Also what would need another kind of socket.
    files.write("tls_server_config: {cert_file: c.pem, key_file: k.pem}\n");
    CHECK(status() == "401");
    CHECK(files.logged("the previous one stays in use") == 3);
    CHECK(files.logged("cannot use the certificate " + (files.directory / "c.pem").string() +
                       ": No such file or directory") == 1);
    // The file that was missing is there now, and is wrong as well.
    std::ofstream(files.directory / "c.pem") << "nothing";
    CHECK(status() == "401");
    CHECK(files.logged("the previous one stays in use") == 4);

    // It is read on a thread of the server, whose stack is not large.
    for (const std::string piece : {"[", "{a: "}) {
        std::string deep;
        for (int i = 0; i < 20'000; i++) {
            deep += piece;
        }
        files.write(deep);
        CHECK(status() == "401");
    }
    CHECK(files.logged("nested too deeply") == 2);

    files.write("");
    CHECK(status() == "200");
    CHECK(files.logged("web configuration reloaded") == 2);
    CHECK(files.logged("the previous one stays in use") == 6);
}

TEST_CASE("files are not looked at for each request") {
    using namespace std::chrono_literals;
    const Files files;
    files.write("");
    const auto server = serve_with(*Access::open(files.web(), 1h));
    files.write(alice);
    CHECK_THAT(get(server->port(), "/metrics"), StartsWith("HTTP/1.1 200 "));
}

TEST_CASE("what cannot be used at the start is an error") {
    const Files files;
    CHECK(Access::open(files.web()).error().message == files.web() + ": No such file or directory");
    files.write("tls_server_config: {cert_file: c.pem, key_file: k.pem}\n");
    const auto wrong = [&] { return load_access_rules(files.web()).error().message; };
    CHECK(wrong() == files.web() + ": cannot use the certificate " +
                         (files.directory / "c.pem").string() + ": No such file or directory");
    std::ofstream(files.directory / "c.pem") << "nothing\n";
    CHECK(wrong() == files.web() + ": cannot use the certificate " +
                         (files.directory / "c.pem").string() + ": no start line");
}

TEST_CASE("files that never end are errors, in their time") {
    const Files files;
    const std::string fifo = files.directory / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    files.write("tls_server_config: {cert_file: fifo, key_file: k.pem}\n");
    // Both at a time, as each takes these 2 s.
    auto of_fifo = std::async(std::launch::async, [&] { return load_access_rules(fifo); });
    CHECK(load_access_rules(files.web()).error().message ==
          files.web() + ": cannot use the certificate " + fifo +
              ": nothing came out of the file within 2 s");
    CHECK(of_fifo.get().error().message == fifo + ": nothing came out of the file within 2 s");
}

TEST_CASE("while a web configuration is being read, the old one holds") {
    using namespace std::chrono_literals;
    const Files files;
    files.write(alice);
    const auto access = *Access::open(files.web(), 0s);
    const auto before = access->rules();
    const std::string fifo = files.directory / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    std::filesystem::rename(fifo, files.web());
    std::jthread reading([&] { (void)access->rules(); });
    Fd writer;
    while (!writer) {  // until the other end is open
        writer = Fd(::open(files.web().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    }
    // It would wait for the reader, and that for the writer.
    CHECK(access->rules() == before);
    REQUIRE(::write(writer.get(), "# all\n", 6) == 6);
    writer.reset();
    reading.join();
    files.write("http_server_config: {headers: {X-Frame-Options: deny}}\n");
    CHECK(access->rules()->config.headers.size() == 1);
}

TEST_CASE("a web configuration out of a pipe holds to the end") {
    using namespace std::chrono_literals;
    const Files files;
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const Fd reader(ends[0]);
    Fd writer(ends[1]);
    REQUIRE(::write(writer.get(), alice.data(), alice.size()) ==
            static_cast<ssize_t>(alice.size()));
    writer.reset();
    const auto access = *Access::open("/dev/fd/" + std::to_string(reader.get()), 0s);
    CHECK(access->rules()->config.users.size() == 1);
    CHECK(access->rules()->config.users.size() == 1);
    CHECK(files.logged("the previous one stays in use") == 0);
}
