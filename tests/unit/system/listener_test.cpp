#include "exporter/http/listener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "exporter/system/listen_address.h"
#include "tests/harness/machine/directory.h"
#include "tests/unit/http/http_client.h"

using namespace gpusnoop;
using namespace gpusnoop::http;
using namespace gpusnoop::http::test;

namespace {

Fd connect_to(const std::string &path) {
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0) {
        fd.reset();
    }
    return fd;
}

std::unique_ptr<Server> serve_on(std::vector<Listener> listeners) {
    auto server = Server::start(std::move(listeners), *Access::open(""),
                                {{.paths = {"/"}, .handler = answers("here")}});
    REQUIRE(server);
    return *std::move(server);
}

}  // namespace

TEST_CASE("addresses of Unix sockets") {
    CHECK(parse_listen_address("unix:/run/x.sock")->unix_path == "/run/x.sock");
    CHECK(parse_listen_address("unix:/" + std::string(106, 'x')));
    CHECK(parse_listen_address("unix:/" + std::string(107, 'x')).error().message ==
          "the path of a Unix socket has at most 107 bytes, this one has 108");
    for (const std::string text : {"unix:", "unix:/", "unix:x", "unix:/run/", "unix://"}) {
        INFO(text);
        CHECK(parse_listen_address(text).error().message ==
              "\"" + text +
                  "\" is not an address to listen on: expected unix: and an absolute path");
    }
    CHECK_FALSE(parse_listen_address(std::string("unix:/a\0b", 9)));
}

TEST_CASE("one server answers at all its addresses") {
    const harness::TemporaryDirectory directory;
    const std::string path = directory / "a, b.sock";
    std::vector<Listener> listeners;
    for (const std::string &address :
         {std::string("127.0.0.1:0"), "unix:" + path, std::string(":0")}) {
        auto listener = Listener::open(address);
        REQUIRE(listener);
        listeners.push_back(*std::move(listener));
    }
    CHECK(listeners[0].address() == "127.0.0.1:" + std::to_string(listeners[0].port()));
    CHECK(listeners[1].address() == "unix:" + path);
    CHECK(listeners[1].port() == 0);
    const auto last = listeners[2].port();
    const auto server = serve_on(std::move(listeners));
    CHECK(body_of(get(server->port(), "/")) == "here");
    CHECK(body_of(get(last, "/")) == "here");
    const Fd fd = connect_to(path);
    REQUIRE(fd);
    send_bytes(fd, "GET / HTTP/1.0\r\n\r\n");
    CHECK(body_of(receive_all(fd)) == "here");
}

TEST_CASE("a Unix socket is its user's and group's, and goes with the server") {
    const harness::TemporaryDirectory directory;
    const std::string path = directory / "s";
    const mode_t before = ::umask(0077);
    auto listener = Listener::open("unix:" + path);
    ::umask(before);
    REQUIRE(listener);
    struct stat status{};
    REQUIRE(::lstat(path.c_str(), &status) == 0);
    CHECK(S_ISSOCK(status.st_mode));
    CHECK((status.st_mode & 07777) == 0660);
    {
        const Listener moved = *std::move(listener);
        CHECK(std::filesystem::exists(path));
    }
    CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a Unix socket that nobody listens on makes room, and nothing else does") {
    const harness::TemporaryDirectory directory;
    const std::string path = directory / "s";
    const std::string address = "unix:" + path;
    const std::string in_use = "cannot listen on " + address + ": address already in use";
    {
        // What a server leaves that was killed.
        const Fd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un bound{};
        bound.sun_family = AF_UNIX;
        path.copy(bound.sun_path, sizeof(bound.sun_path) - 1);
        REQUIRE(::bind(dead.get(), reinterpret_cast<const sockaddr *>(&bound), sizeof bound) == 0);
    }
    REQUIRE(std::filesystem::exists(path));
    {
        const auto first = Listener::open(address);
        REQUIRE(first);
        CHECK(Listener::open(address).error().message == in_use);
        CHECK(connect_to(path));
        // Another has taken the place: its file stays.
        std::filesystem::remove(path);
        std::ofstream(path) << "precious";
    }
    CHECK(std::filesystem::file_size(path) == 8);
    CHECK(Listener::open(address).error().message == in_use);
    CHECK(std::filesystem::file_size(path) == 8);
    CHECK(Listener::open("unix:" + path + "/none/s").error().message ==
          "cannot listen on unix:" + path + "/none/s: not a directory");
}

TEST_CASE("a socket that listens is taken over, and nothing else") {
    CHECK(Listener::adopt(Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC))).error().message ==
          "it is no socket: Socket operation on non-socket");
    const std::string none = "it is no stream socket that listens (ListenStream=, with Accept=no)";
    CHECK(Listener::adopt(Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))).error().message ==
          none);
    CHECK(Listener::adopt(Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))).error().message ==
          none);
    const auto made = Listener::open("127.0.0.1:0");
    REQUIRE(made);
    std::vector<Listener> listeners;
    listeners.push_back(*Listener::adopt(Fd(::dup(made->fd()))));
    CHECK(listeners.front().address() == made->address());
    CHECK((::fcntl(listeners.front().fd(), F_GETFD) & FD_CLOEXEC) != 0);
    const auto server = serve_on(std::move(listeners));
    CHECK(body_of(get(made->port(), "/")) == "here");
}

TEST_CASE("what systemd did not pass is not looked for") {
    const std::string none =
        "systemd passed no sockets: --web.systemd-socket needs a .socket unit that starts this "
        "service";
    CHECK(systemd_listeners().error().message == none);
    // For another process: file descriptor 3 is ours.
    ::setenv("LISTEN_PID", "1", 1);
    ::setenv("LISTEN_FDS", "1", 1);
    CHECK(systemd_listeners().error().message == none);
    CHECK(std::getenv("LISTEN_FDS") == nullptr);
    for (const char *count : {"0", "-1", "x", "1x", "", "99999999999999999999"}) {
        INFO(count);
        ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
        ::setenv("LISTEN_FDS", count, 1);
        CHECK(systemd_listeners().error().message == none);
    }
}
