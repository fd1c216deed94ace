#include "exporter/http/server.h"

#include <civetweb.h>
#include <fmt/format.h>

#include <exception>
#include <optional>
#include <utility>

#include "exporter/base/gzip.h"
#include "exporter/base/log.h"
#include "exporter/http/request_parts.h"

namespace gpusnoop::http {

namespace {

// Below this, the gzip header and the work cost more than they save.
constexpr std::size_t gzip_from = 1024;

bool takes_gzip(const Request &request, const Response &response) {
    return request.accepts_gzip && !response.is_compressed && response.body &&
           response.body->size() >= gzip_from;
}

std::shared_ptr<const std::string> compressed(const Response &response) {
    auto packed = gzip(*response.body);
    return packed ? std::make_shared<const std::string>(*std::move(packed)) : nullptr;
}

std::string head_of(const Response &response, std::size_t size, bool is_packed) {
    std::string head = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n", response.status,
        mg_get_response_code_text(nullptr, response.status), response.content_type, size);
    head += is_packed ? "Content-Encoding: gzip\r\n" : "";
    head += response.status == 405 ? fmt::format("Allow: {}\r\n", response.allow) : "";
    head += fmt::format("Cache-Control: {}\r\nVary: Accept-Encoding", response.cache_control);
    head += response.vary.empty() ? "" : ", " + response.vary;
    head += "\r\nX-Content-Type-Options: nosniff\r\n";
    head += response.more_head;
    head += "Connection: close\r\n\r\n";
    return head;
}

// Adds the configuration's headers, except one that the exporter always sets.
void add_headers(Response &response, const std::map<std::string, std::string> &headers) {
    for (const auto &[name, value] : headers) {
        if (name != "X-Content-Type-Options") {
            response.more_head += fmt::format("{}: {}\r\n", name, value);
        }
    }
}

// A request that gets past the login is trusted, if there is a login.
bool is_trusted(const Request &request, const Connection &connection, const AccessRules &rules) {
    return demands_identity(rules.config) ||
           (is_local_peer(connection.fd()) && !request.is_forwarded &&
            is_address_or_localhost(request.host));
}

// The response that refuses the request; empty if the route takes it. Null: there is no route.
std::optional<Response> refusal(const Route *route, const Request &request) {
    if (route == nullptr) {
        return text_response(404, "There is nothing here. The pages are listed at /\n");
    }
    if (route->is_action && request.method != "POST") {
        Response only_post = text_response(405, "Only POST works here.\n");
        only_post.allow = "POST";
        return only_post;
    }
    if (route->is_action && is_foreign_origin(request.origin, request.host)) {
        return text_response(403, "A page of another site may not do this.\n");
    }
    if (route->is_private && !request.is_trusted) {
        return private_response();
    }
    if (route->begin && request.is_cross_site) {
        return text_response(403, "A page of another site may not do this.\n");
    }
    if (route->begin && request.method != "GET") {
        Response only_get = text_response(405, "Only GET works here.\n");
        only_get.allow = "GET";
        return only_get;
    }
    if (!route->is_action && request.method != "GET" && request.method != "HEAD") {
        return text_response(405, "Only GET and HEAD work here.\n");
    }
    return std::nullopt;
}

Response unauthorized() {
    Response response = text_response(401, "Unauthorized\n");
    response.more_head = "WWW-Authenticate: Basic realm=\"gpusnoop_exporter\"\r\n";
    return response;
}

Response failed(const Request &request, const char *error) {
    log::error("serving a page failed", {{"path", request.path}, {"error", error}});
    return text_response(500, "This page failed. The log says why.\n");
}

Response handle(const Route &route, const Request &request) {
    try {
        return route.handler(request);
    } catch (const std::exception &error) {
        return failed(request, error.what());
    } catch (...) {
        return failed(request, "unknown");
    }
}

// If memory runs out, this client is disconnected; later ones may find memory.
template <typename Task>
void unless_out_of_memory(Task task) {
    try {
        task();
    } catch (const std::exception &error) {
        log::debug("http", {{"detail", error.what()}});
    }
}

}  // namespace

Response text_response(int status, std::string body) {
    Response response;
    response.status = status;
    response.body = std::make_shared<const std::string>(std::move(body));
    return response;
}

Response private_response() {
    return text_response(
        403,
        "Ask on the node itself, at 127.0.0.1: this page shows what programs do, and answers only "
        "clients on the node. To open it to others, start the exporter with logins "
        "(--web.config.file) or --web.enable-api (docs/web.md#who-may-read-what).\n");
}

Server::Server(std::vector<Listener> listeners, std::unique_ptr<Access> access,
               std::vector<Route> routes)
    : listeners_(std::move(listeners)),
      access_(std::move(access)),
      logins_({.max_running = 1, .max_waiting = max_waiting_logins}),
      current_tls_([this] { return access_->rules()->tls; }) {
    for (Route &route : routes) {
        const auto way = std::make_shared<Way>(std::move(route));
        for (const std::string &path : way->route.paths) {
            ways_[path] = way;
        }
    }
}

Result<std::unique_ptr<Server>> Server::start(std::vector<Listener> listeners,
                                              std::unique_ptr<Access> access,
                                              std::vector<Route> routes) {
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
    std::vector<Route> routes;
    for (auto &[path, handler] : pages) {
        routes.push_back({.paths = {path}, .handler = std::move(handler)});
    }
    for (auto &[path, handler] : actions) {
        routes.push_back({.paths = {path}, .handler = std::move(handler), .is_action = true});
    }
    return start(std::move(listeners), *std::move(access), std::move(routes));
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
    auto connections = Connections::open(listeners_);
    if (!connections) {
        return tl::unexpected<Error>(connections.error());
    }
    connections_ = *std::move(connections);
    auto started = Workers::start(
        workers, connections_, tls_.get(),
        {.request =
             [this](auto connection, Request request, std::string authorization) {
                 begin(std::move(connection), std::move(request), std::move(authorization));
             },
         .refusal =
             [this](auto connection, int status) {
                 const std::string reason = mg_get_response_code_text(nullptr, status);
                 Exchange exchange{.connection = std::move(connection)};
                 respond(exchange, text_response(status, reason + "\n"));
             }});
    if (!started) {
        return tl::unexpected<Error>(started.error());
    }
    workers_ = *std::move(started);
    return {};
}

Server::Way *Server::find(const std::string &path) const {
    const auto found = ways_.find(path);
    return found == ways_.end() ? nullptr : found->second.get();
}

void Server::begin(std::unique_ptr<Connection> connection, Request request,
                   std::string authorization) {
    const auto exchange = std::make_shared<Exchange>();
    exchange->connection = std::move(connection);
    exchange->request = std::move(request);
    exchange->authorization = std::move(authorization);
    exchange->rules = access_->rules();
    exchange->request.is_trusted =
        is_trusted(exchange->request, *exchange->connection, *exchange->rules);
    const Way *way = find(exchange->request.path);
    if (way != nullptr && way->route.is_open) {
        return admit(exchange);
    }
    switch (exchange->rules->auth->recall(exchange->authorization)) {
        case BasicAuth::Verdict::allowed:
            return admit(exchange);
        case BasicAuth::Verdict::denied:
            return respond(*exchange, unauthorized());
        case BasicAuth::Verdict::unknown:
            break;
    }
    auto decision = logins_.admit(exchange);
    if (decision.is_refused) {
        return respond(*exchange, text_response(503, "Too many logins at once: try again.\n"));
    }
    check_logins(std::move(decision.to_run));
}

// Another worker continues with an admitted request, and the next login does not wait for it.
void Server::check_logins(std::shared_ptr<Admission::Job> job) {
    for (; job != nullptr && !connections_->is_stopping(); job = logins_.next(job)) {
        const std::shared_ptr<Exchange> exchange = job->first;
        unless_out_of_memory([&] {
            if (exchange->rules->auth->check(exchange->authorization)) {
                connections_->post([this, exchange] { admit(exchange); });
            } else {
                respond(*exchange, unauthorized());
            }
        });
    }
}

void Server::admit(const std::shared_ptr<Exchange> &exchange) {
    Way *const way = find(exchange->request.path);
    if (auto refused = refusal(way == nullptr ? nullptr : &way->route, exchange->request)) {
        return respond(*exchange, *std::move(refused));
    }
    if (way->route.begin) {
        return begin_long(way->route, exchange);
    }
    auto decision = way->admission.admit(exchange);
    if (decision.is_refused) {
        return respond(*exchange, text_response(503, "Too many requests at once: try again.\n"));
    }
    run(*way, std::move(decision.to_run));
}

void Server::begin_long(const Route &route, const std::shared_ptr<Exchange> &exchange) {
    // A thread of the server sends the response: it may have to compress it.
    const auto answer = [this, exchange](Response response) {
        connections_->post([this, exchange, response = std::move(response)] {
            unless_out_of_memory([&] {
                respond(*exchange, response,
                        takes_gzip(exchange->request, response) ? compressed(response) : nullptr);
            });
        });
    };
    try {
        route.begin(exchange->request, {.client = exchange->connection->fd(), .answer = answer});
    } catch (const std::exception &error) {
        answer(failed(exchange->request, error.what()));
    }
}

void Server::run(Way &way, std::shared_ptr<Admission::Job> job) {
    for (; job != nullptr && !connections_->is_stopping(); job = way.admission.next(job)) {
        unless_out_of_memory([&] {
            const Response response = handle(way.route, job->first->request);
            std::shared_ptr<const std::string> packed;
            for (const auto &exchange : way.admission.close(*job)) {
                const bool is_packed = takes_gzip(exchange->request, response);
                if (is_packed && packed == nullptr) {
                    packed = compressed(response);
                }
                respond(*exchange, response, is_packed ? packed : nullptr);
            }
        });
    }
}

void Server::respond(Exchange &exchange, Response response,
                     const std::shared_ptr<const std::string> &packed) {
    if (exchange.rules != nullptr) {
        add_headers(response, exchange.rules->config.headers);
    }
    auto body = packed != nullptr ? packed : response.body;
    std::string head = head_of(response, body == nullptr ? 0 : body->size(), packed != nullptr);
    exchange.connection->answer(std::move(head),
                                exchange.request.method == "HEAD" ? nullptr : std::move(body));
    connections_->send(std::move(exchange.connection));
}

}  // namespace gpusnoop::http
