#include "exporter/http/server.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "exporter/base/fd.h"
#include "exporter/base/listen_address.h"
#include "exporter/base/log.h"
#include "exporter/http/gzip.h"

namespace gpusnoop::http {

namespace {

// Below this, the gzip header and the work cost more than they save.
constexpr std::size_t kGzipFrom = 1024;

std::string error_name(int code) {
    std::string text = std::strerror(code);
    text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
    return text;
}

// Binds and lets go again. civetweb reports a failed bind only as a sentence of its own in its log;
// this tells which error it is. Returns 0 or an errno.
int try_bind(const ListenAddress &address, bool dual_stack) {
    const bool ipv6 = address.ipv6 || dual_stack;
    const Fd fd(::socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) {
        return errno;
    }
    const int on = 1;
    const int only_ipv6 = dual_stack ? 0 : 1;
    sockaddr_in6 v6{};
    sockaddr_in v4{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = v4.sin_port = htons(address.port);
    v4.sin_family = AF_INET;
    if (!address.host.empty()) {
        inet_pton(address.ipv6 ? AF_INET6 : AF_INET, address.host.c_str(),
                  address.ipv6 ? static_cast<void *>(&v6.sin6_addr) : &v4.sin_addr);
    }
    if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (ipv6 &&
         setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, sizeof only_ipv6) != 0)) {
        return errno;
    }
    const int bound = ipv6 ? ::bind(fd.get(), reinterpret_cast<const sockaddr *>(&v6), sizeof v6)
                           : ::bind(fd.get(), reinterpret_cast<const sockaddr *>(&v4), sizeof v4);
    return bound == 0 ? 0 : errno;
}

bool lacks_ipv6(int error) {
    return error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
}

std::string header(mg_connection *connection, const char *name) {
    const char *value = mg_get_header(connection, name);
    return value == nullptr ? "" : value;
}

void send(mg_connection *connection, const Request &request, const Response &response) {
    static const std::string kNothing;
    const std::string *body = response.body ? response.body.get() : &kNothing;
    std::optional<std::string> compressed;
    if (request.accepts_gzip && body->size() >= kGzipFrom) {
        compressed = gzip(*body);
        body = compressed ? &*compressed : body;
    }
    std::string head = "HTTP/1.1 " + std::to_string(response.status) + " " +
                       mg_get_response_code_text(connection, response.status) + "\r\n";
    head += "Content-Type: " + response.content_type + "\r\n";
    head += "Content-Length: " + std::to_string(body->size()) + "\r\n";
    head += compressed ? "Content-Encoding: gzip\r\n" : "";
    head += response.status == 405 ? "Allow: " + response.allow + "\r\n" : "";
    // Every page says what is now.
    head +=
        "Cache-Control: no-store\r\nVary: Accept-Encoding\r\nX-Content-Type-Options: nosniff\r\n";
    head += "Connection: close\r\n\r\n";
    if (mg_write(connection, head.data(), head.size()) <= 0 || request.method == "HEAD") {
        return;
    }
    // In pieces: civetweb gives each write its own timeout, so a client may be slow, but not stall.
    constexpr std::size_t kPiece = 256U << 10U;
    for (std::size_t at = 0; at < body->size(); at += kPiece) {
        const std::size_t size = std::min(kPiece, body->size() - at);
        if (mg_write(connection, body->data() + at, size) != static_cast<int>(size)) {
            return;  // the client is gone
        }
    }
}

}  // namespace

Response text_response(int status, std::string body) {
    Response response;
    response.status = status;
    response.body = std::make_shared<const std::string>(std::move(body));
    return response;
}

Server::Server(std::map<std::string, Handler> routes, std::map<std::string, Handler> actions)
    : routes_(std::move(routes)), actions_(std::move(actions)) {
    mg_init_library(MG_FEATURES_DEFAULT);
}

Server::~Server() {
    if (context_ != nullptr) {
        mg_stop(context_);
    }
    mg_exit_library();
}

Result<std::unique_ptr<Server>> Server::listen(const std::string &address,
                                               std::map<std::string, Handler> routes,
                                               std::map<std::string, Handler> actions) {
    const Result<ListenAddress> parsed = parse_listen_address(address);
    if (!parsed) {
        return tl::unexpected<Error>(parsed.error());
    }
    const std::string step = "cannot listen on " + address;
    const std::string port = std::to_string(parsed->port);
    bool dual_stack = parsed->host.empty();
    int error = try_bind(*parsed, dual_stack);
    if (dual_stack && lacks_ipv6(error)) {
        dual_stack = false;
        error = try_bind(*parsed, dual_stack);
    }
    if (error != 0) {
        return fail(step + ": " + error_name(error), error);
    }
    // civetweb's spelling: "+80" is both families, "80" is IPv4 only.
    const std::string ports = dual_stack             ? "+" + port
                              : parsed->host.empty() ? port
                              : parsed->ipv6         ? "[" + parsed->host + "]:" + port
                                                     : parsed->host + ":" + port;
    std::unique_ptr<Server> server(new Server(std::move(routes), std::move(actions)));
    if (const Result<> started = server->start(ports); !started) {
        return fail_in(step, started.error());
    }
    return server;
}

Result<> Server::start(const std::string &ports) {
    // clang-format off
    const char *options[] = {
        "listening_ports", ports.c_str(),
        "num_threads", "8",
        // The whole request must arrive within this time, and each write be taken.
        "request_timeout_ms", "2000",
        "max_request_size", "4096",
        "enable_keep_alive", "no",
        "connection_queue", "16",
        "listen_backlog", "64",
        "tcp_nodelay", "1",
        // Escapes are left as they were sent: %00 and its like then match nothing. What civetweb
        // does put right is slashes and dots: //metrics and /x/../metrics are /metrics.
        "decode_url", "no",
        "enable_directory_listing", "no",
        "enable_auth_domain_check", "no",
        "access_control_allow_origin", "",
        "access_control_allow_methods", "",
        nullptr};
    // clang-format on
    mg_callbacks callbacks{};
    callbacks.begin_request = &Server::on_request;
    callbacks.http_error = &Server::on_error;
    callbacks.log_message = &Server::on_log;
    mg_init_data init{};
    init.callbacks = &callbacks;
    init.user_data = this;
    init.configuration_options = options;
    std::array<char, 256> text{};
    mg_error_data error{};
    error.text = text.data();
    error.text_buffer_size = text.size();
    context_ = mg_start2(&init, &error);
    if (context_ == nullptr) {
        return fail(text.front() != '\0' ? text.data() : "the HTTP server did not start");
    }
    mg_server_port bound{};
    if (mg_get_server_ports(context_, 1, &bound) == 1) {
        port_ = static_cast<std::uint16_t>(bound.port);
    }
    return {};
}

Response Server::answer(const Request &request) const {
    if (const auto action = actions_.find(request.path); action != actions_.end()) {
        if (request.method == "POST") {
            return action->second(request);
        }
        Response refusal = text_response(405, "Only POST works here.\n");
        refusal.allow = "POST";
        return refusal;
    }
    const auto route = routes_.find(request.path);
    if (route == routes_.end()) {
        return text_response(404, "There is nothing here. The pages are listed at /\n");
    }
    if (request.method != "GET" && request.method != "HEAD") {
        return text_response(405, "Only GET and HEAD work here.\n");
    }
    return route->second(request);
}

// civetweb is C: nothing may be thrown through it.
int Server::on_request(mg_connection *connection) {
    try {
        const mg_request_info *info = mg_get_request_info(connection);
        const auto *server = static_cast<const Server *>(info->user_data);
        // Also keeps civetweb from reading a body that nobody asked for.
        mg_disable_connection_keep_alive(connection);
        Request request;
        request.method = info->request_method;
        request.path = info->local_uri == nullptr ? "" : info->local_uri;
        request.query = info->query_string == nullptr ? "" : info->query_string;
        request.accept = header(connection, "Accept");
        request.accepts_gzip = accepts_gzip(header(connection, "Accept-Encoding"));
        Response response;
        try {
            response = server->answer(request);
        } catch (const std::exception &error) {
            log::error("a page failed", {{"path", request.path}, {"error", error.what()}});
            response = text_response(500, "This page failed. The log says why.\n");
        } catch (...) {
            log::error("a page failed", {{"path", request.path}});
            response = text_response(500, "This page failed.\n");
        }
        send(connection, request, response);
        return response.status;
    } catch (...) {
        return 500;  // out of memory: the connection is closed without an answer
    }
}

// A request that never became one. civetweb's own answer repeats what the client sent as the
// protocol.
int Server::on_error(mg_connection *connection, int status, const char *) {
    try {
        const std::string reason = mg_get_response_code_text(connection, status);
        send(connection, Request{}, text_response(status, reason + "\n"));
    } catch (...) {
        return 0;  // out of memory: the connection is closed without an answer
    }
    return 0;
}

// Scanners and broken clients cause these; they are no errors of ours.
int Server::on_log(const mg_connection *, const char *message) {
    try {
        log::debug("http", {{"detail", message}});
    } catch (...) {
        return 1;
    }
    return 1;
}

}  // namespace gpusnoop::http
