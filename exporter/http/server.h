// The HTTP server: a few fixed paths, answered on request. Built to run unattended on a network:
// small requests only, GET and HEAD only except where a path takes POST, short timeouts, no files,
// a few threads that no client occupies, and for each route a policy of how many requests run and
// wait.
//
// One thread waits for all clients (connections.h). A silent or slow client costs a descriptor, and
// delays no other in its TLS handshake, request or response (connection.h). A worker gets a request
// when all of it has arrived (workers.h). Each route has a policy (route.h, admission.h); a waiting
// request has no thread. access.h decides which clients may read what.
//
// civetweb provides the worker threads and the parsing of requests: the first line, headers,
// escapes, and what is refused as malformed. Code that reads what strangers send should be code
// that many people use. The rest is ours: listening (listener.h), TLS (tls.h), timeouts, limits,
// logins (basic_auth.h) and responses, because civetweb keeps a thread for a connection from the
// first byte to the last, so that a few slow clients would occupy them all. A civetweb thread never
// sees a socket here (cmake/civetweb.patch). Its own TLS, files and CGI are not compiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/http/access.h"
#include "exporter/http/admission.h"
#include "exporter/http/connections.h"
#include "exporter/http/listener.h"
#include "exporter/http/route.h"
#include "exporter/http/tls.h"
#include "exporter/http/workers.h"

namespace gpusnoop::http {

class Server {
public:
    // Serves clients of `listeners` that `access` admits, from now on, on its own threads (which
    // inherit the caller's signal mask).
    [[nodiscard]] static Result<std::unique_ptr<Server>> start(std::vector<Listener> listeners,
                                                               std::unique_ptr<Access> access,
                                                               std::vector<Route> routes);
    // The same at one address, for every client.
    [[nodiscard]] static Result<std::unique_ptr<Server>> listen(
        const std::string &address, std::map<std::string, Handler> pages,
        std::map<std::string, Handler> actions = {});

    // Stops listening, disconnects clients that send or wait, and waits for running handlers.
    ~Server() = default;
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;

    [[nodiscard]] const std::vector<Listener> &listeners() const { return listeners_; }
    [[nodiscard]] bool has_tls() const { return access_->has_tls(); }
    // The port of the first listener, even if the address had port 0; 0 if there is none.
    [[nodiscard]] std::uint16_t port() const;

    // Threads that handle requests; one more waits for clients. Handlers of all routes, logins and
    // the reading of changed files may occupy some of them for a while: routes must allow so few
    // running requests that threads are left for receiving and sending.
    static constexpr int workers = 10;
    // The most logins that wait to be checked; one is checked at a time.
    static constexpr std::size_t max_waiting_logins = 16;

private:
    // A route and its admission.
    struct Way {
        explicit Way(Route of) : route(std::move(of)), admission(route.policy) {}
        Route route;
        Admission admission;
    };

    Server(std::vector<Listener> listeners, std::unique_ptr<Access> access,
           std::vector<Route> routes);

    [[nodiscard]] Result<> start();
    void begin(std::unique_ptr<Connection> connection, Request request, std::string authorization);
    void check_logins(std::shared_ptr<Admission::Job> job);
    void admit(const std::shared_ptr<Exchange> &exchange);
    void run(Way &way, std::shared_ptr<Admission::Job> job);
    void begin_long(const Route &route, const std::shared_ptr<Exchange> &exchange);
    void respond(Exchange &exchange, Response response,
                 const std::shared_ptr<const std::string> &packed = nullptr);
    [[nodiscard]] Way *find(const std::string &path) const;

    std::vector<Listener> listeners_;
    std::unique_ptr<Access> access_;
    std::map<std::string, std::shared_ptr<Way>> ways_;  // by path
    Admission logins_;
    CurrentTls current_tls_;
    std::shared_ptr<ssl_ctx_st> tls_;
    std::shared_ptr<Connections> connections_;
    std::unique_ptr<Workers> workers_;  // the last: they end before the members that they use
};

}  // namespace gpusnoop::http
