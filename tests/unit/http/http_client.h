// A client that sends exact bytes, and a server to send them to.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/fd.h"
#include "exporter/http/server.h"

namespace gpusnoop::http::test {

inline Fd connect_to(std::uint16_t port) {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{20, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0) {
        throw std::runtime_error("cannot connect");
    }
    return fd;
}

inline void send_bytes(const Fd &fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n <= 0) {
            return;  // the server may refuse before it read everything
        }
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
}

// All that the server sends until it closes the connection.
inline std::string receive_all(const Fd &fd) {
    std::string all;
    std::array<char, 65536> chunk{};
    for (;;) {
        const ssize_t n = ::recv(fd.get(), chunk.data(), chunk.size(), 0);
        if (n <= 0) {
            return all;
        }
        all.append(chunk.data(), static_cast<std::size_t>(n));
    }
}

inline std::string send_request(std::uint16_t port, std::string_view request) {
    const Fd fd = connect_to(port);
    send_bytes(fd, request);
    return receive_all(fd);
}

inline std::string get(std::uint16_t port, const std::string &target,
                       const std::string &headers = "") {
    return send_request(port,
                        "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
}

inline std::string body_of(const std::string &response) {
    const std::size_t end = response.find("\r\n\r\n");
    return end == std::string::npos ? "" : response.substr(end + 4);
}

inline std::string header_of(const std::string &response, const std::string &name) {
    const std::size_t at = response.find("\r\n" + name + ": ");
    if (at == std::string::npos) {
        return "";
    }
    const std::size_t value = at + name.size() + 4;
    return response.substr(value, response.find("\r\n", value) - value);
}

inline std::string large_text() {
    std::string text;
    for (int i = 0; i < 20000; ++i) {
        text += "metric_name{label=\"value\"} " + std::to_string(i) + "\n";
    }
    return text;
}

inline std::unique_ptr<Server> serve(std::map<std::string, Handler> routes) {
    auto server = Server::listen("127.0.0.1:0", std::move(routes));
    REQUIRE(server);
    REQUIRE((*server)->port() != 0);
    return *std::move(server);
}

inline Handler answers(const std::string &text) {
    return [text](const Request &) { return text_response(200, text); };
}

}  // namespace gpusnoop::http::test
