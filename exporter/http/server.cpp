#include "exporter/http/server.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "exporter/base/fd.h"
#include "exporter/base/log.h"
#include "exporter/http/gzip.h"
#include "exporter/http/origin.h"

namespace gpusnoop::http {

namespace {

// Below this, the gzip header and the work cost more than they save.
constexpr std::size_t kGzipFrom = 1024;

std::string header(mg_connection *connection, const char *name) {
    const char *value = mg_get_header(connection, name);
    return value == nullptr ? "" : value;
}

// `packed` is the compressed body, if there is one.
void send(mg_connection *connection, const Request &request, const Response &response,
          const std::optional<std::string> &packed = {}) {
    static const std::string kNothing;
    const std::string *body = packed ? &*packed : response.body ? response.body.get() : &kNothing;
    std::string head = "HTTP/1.1 " + std::to_string(response.status) + " " +
                       mg_get_response_code_text(connection, response.status) + "\r\n";
    head += "Content-Type: " + response.content_type + "\r\n";
    head += "Content-Length: " + std::to_string(body->size()) + "\r\n";
    head += packed ? "Content-Encoding: gzip\r\n" : "";
    head += response.status == 405 ? "Allow: " + response.allow + "\r\n" : "";
    // Every page says what is now.
    head += "Cache-Control: no-store\r\nVary: Accept-Encoding" +
            (response.vary.empty() ? "" : ", " + response.vary) +
            "\r\nX-Content-Type-Options: nosniff\r\n";
    head += response.more_head + "Connection: close\r\n\r\n";
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

// Those of the configuration. One of them is ours anyway.
void add_headers(Response &response, const std::map<std::string, std::string> &headers) {
    for (const auto &[name, value] : headers) {
        if (name != "X-Content-Type-Options") {
            response.more_head += name + ": " + value + "\r\n";
        }
    }
}

// The file descriptor of this process that listens on this port of the loopback; -1 if there is
// none.
int find_socket(std::uint16_t port) {
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
        const int fd = std::atoi(entry.path().filename().c_str());
        int listens = 0;
        socklen_t size = sizeof listens;
        sockaddr_in address{};
        socklen_t address_size = sizeof address;
        if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
            ::getsockname(fd, reinterpret_cast<sockaddr *>(&address), &address_size) == 0 &&
            address.sin_family == AF_INET && address.sin_port == htons(port) &&
            address.sin_addr.s_addr == htonl(INADDR_LOOPBACK)) {
            return fd;
        }
    }
    return -1;
}

// civetweb does not say that it got no descriptor.
tl::unexpected<Error> cannot_start(const Listener &listener, std::string reason) {
    if (const Fd one_more(::fcntl(listener.fd(), F_DUPFD_CLOEXEC, 0)); !one_more) {
        return fail_errno("the HTTP server's sockets");
    }
    return fail(std::move(reason));
}

// Puts our sockets under the numbers of civetweb's, which are closed by that: from then on it
// accepts what comes in at ours.
Result<> replace_sockets(mg_context *context, const std::vector<Listener> &listeners) {
    std::vector<mg_server_port> ports(listeners.size());
    const int count = mg_get_server_ports(context, static_cast<int>(ports.size()), ports.data());
    if (count != static_cast<int>(listeners.size())) {
        return fail("the HTTP server did not open its sockets");
    }
    for (std::size_t i = 0; i < listeners.size(); i++) {
        const int socket = find_socket(static_cast<std::uint16_t>(ports[i].port));
        if (socket < 0) {
            return cannot_start(listeners[i],
                                "the HTTP server's socket is not to be found below /proc/self/fd");
        }
        if (::dup3(listeners[i].fd(), socket, O_CLOEXEC) < 0) {
            return fail_errno("the HTTP server's socket");
        }
    }
    return {};
}

}  // namespace

Response text_response(int status, std::string body) {
    Response response;
    response.status = status;
    response.body = std::make_shared<const std::string>(std::move(body));
    return response;
}

Server::Server(std::vector<Listener> listeners, std::unique_ptr<Access> access, Routes routes)
    : listeners_(std::move(listeners)),
      access_(std::move(access)),
      routes_(std::move(routes)),
      current_tls_([this] { return access_->rules()->tls; }) {
    mg_init_library(MG_FEATURES_TLS);
}

Server::~Server() {
    if (context_ != nullptr) {
        mg_stop(context_);
    }
    mg_exit_library();
}

Result<std::unique_ptr<Server>> Server::start(std::vector<Listener> listeners,
                                              std::unique_ptr<Access> access, Routes routes) {
    std::unique_ptr<Server> server(
        new Server(std::move(listeners), std::move(access), std::move(routes)));
    if (const Result<> started = server->start(); !started) {
        return fail_in("cannot serve", started.error());
    }
    return server;
}

Result<std::unique_ptr<Server>> Server::listen(const std::string &address,
                                               std::map<std::string, Handler> pages,
                                               std::map<std::string, Handler> actions) {
    auto listener = Listener::open(address);
    if (!listener) {
        return tl::unexpected<Error>(listener.error());
    }
    auto access = Access::open("");
    if (!access) {
        return tl::unexpected<Error>(access.error());
    }
    std::vector<Listener> listeners;
    listeners.push_back(*std::move(listener));
    return start(std::move(listeners), *std::move(access),
                 {.pages = std::move(pages), .actions = std::move(actions)});
}

std::uint16_t Server::port() const {
    for (const Listener &listener : listeners_) {
        if (listener.port() != 0) {
            return listener.port();
        }
    }
    return 0;
}

Result<> Server::start() {
    if (access_->has_tls()) {
        auto context = make_rotating_context(current_tls_);
        if (!context) {
            return tl::unexpected<Error>(context.error());
        }
        tls_ = *std::move(context);
    }
    // civetweb makes sockets of its own, from addresses in its own words, and says little of what
    // goes wrong. It gets one of the loopback for each of ours, which takes its place below.
    std::string ports;
    for (std::size_t i = 0; i < listeners_.size(); i++) {
        ports += std::string(i == 0 ? "" : ",") + "127.0.0.1:0" + (tls_ == nullptr ? "" : "s");
    }
    const std::string thread_count = std::to_string(threads);
    // clang-format off
    const char *options[] = {
        "listening_ports", ports.c_str(),
        "num_threads", thread_count.c_str(),
        // The whole request must arrive within this time, and each write be taken.
        "request_timeout_ms", "2000",
        "max_request_size", "4096",
        "enable_keep_alive", "no",
        "connection_queue", "256",
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
    callbacks.init_thread = &Server::on_thread;
    callbacks.external_ssl_ctx = tls_ == nullptr ? nullptr : &Server::on_tls;
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
        return cannot_start(listeners_.front(),
                            text.front() != '\0' ? text.data() : "the HTTP server did not start");
    }
    // civetweb goes on without the threads that it could not start, and if one of them is the one
    // that accepts connections, it serves nobody.
    if (is_short_of_threads_ || !accepts_.try_acquire_for(std::chrono::seconds(10))) {
        return fail(
            fmt::format("the HTTP server has not got its {} threads: raise the limit of "
                        "tasks (TasksMax= of a unit, a container's limit of pids, ulimit -u)",
                        threads + 1));
    }
    return replace_sockets(context_, listeners_);
}

// Also asked when the context is about to be freed, which it is not: it is ours.
int Server::on_tls(void **context, void *server) {
    *context = static_cast<const Server *>(server)->tls_.get();
    return 1;
}

Response Server::answer(const Request &request, const AccessRules &rules,
                        const std::string &authorization) const {
    if (!routes_.open.contains(request.path)) {
        switch (rules.auth->check(authorization)) {
            case BasicAuth::Verdict::allowed:
                break;
            case BasicAuth::Verdict::denied: {
                Response refusal = text_response(401, "Unauthorized\n");
                refusal.more_head = "WWW-Authenticate: Basic realm=\"gpusnoop_exporter\"\r\n";
                return refusal;
            }
            case BasicAuth::Verdict::busy:
                return text_response(503, "Too many logins at once: try again.\n");
        }
    }
    return route(request);
}

// Takes a quarter of a MiB, and a core: not for all threads at once.
std::optional<std::string> Server::compress(const Request &request,
                                            const Response &response) const {
    if (!request.accepts_gzip || !response.body || response.body->size() < kGzipFrom) {
        return std::nullopt;
    }
    compressing_.acquire();
    const std::shared_ptr<void> done(nullptr, [this](void *) { compressing_.release(); });
    return gzip(*response.body);
}

Response Server::route(const Request &request) const {
    if (const auto action = routes_.actions.find(request.path); action != routes_.actions.end()) {
        if (request.method == "POST" && is_foreign_origin(request.origin, request.host)) {
            return text_response(403, "A page of another site may not do this.\n");
        }
        if (request.method == "POST") {
            return action->second(request);
        }
        Response refusal = text_response(405, "Only POST works here.\n");
        refusal.allow = "POST";
        return refusal;
    }
    const auto page = routes_.pages.find(request.path);
    if (page == routes_.pages.end()) {
        return text_response(404, "There is nothing here. The pages are listed at /\n");
    }
    if (request.method != "GET" && request.method != "HEAD") {
        return text_response(405, "Only GET and HEAD work here.\n");
    }
    return page->second(request);
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
        request.origin = header(connection, "Origin");
        request.host = header(connection, "Host");
        request.accepts_gzip = accepts_gzip(header(connection, "Accept-Encoding"));
        const auto rules = server->access_->rules();
        Response response;
        try {
            response = server->answer(request, *rules, header(connection, "Authorization"));
        } catch (const std::exception &error) {
            log::error("a page failed", {{"path", request.path}, {"error", error.what()}});
            response = text_response(500, "This page failed. The log says why.\n");
        } catch (...) {
            log::error("a page failed", {{"path", request.path}});
            response = text_response(500, "This page failed.\n");
        }
        add_headers(response, rules->config.headers);
        send(connection, request, response, server->compress(request, response));
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
void *Server::on_thread(const mg_context *context, int type) {
    constexpr int accepting = 0;
    if (type == accepting) {
        static_cast<Server *>(mg_get_user_data(context))->accepts_.release();
    }
    return nullptr;
}

int Server::on_log(const mg_connection *connection, const char *message) {
    try {
        auto *const server = static_cast<Server *>(mg_get_user_data(mg_get_context(connection)));
        if (server != nullptr &&
            std::string_view(message).starts_with("Cannot start worker thread")) {
            server->is_short_of_threads_ = true;
        }
        log::debug("http", {{"detail", message}});
    } catch (...) {
        return 1;
    }
    return 1;
}

}  // namespace gpusnoop::http
