// The HTTP server: a few fixed paths, answered on request. Built to be left alone on a network:
// small requests only, GET and HEAD only but where a path takes POST, short timeouts, no files,
// and more threads than clients that say nothing are likely to hold.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <semaphore>
#include <set>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/http/access.h"
#include "exporter/http/listener.h"

struct mg_connection;
struct mg_context;

namespace gpusnoop::http {

struct Request {
    std::string
        method;  // "GET" or "HEAD", or "POST" for an action; a handler need not tell them apart
    std::string path;    // without the query, not decoded
    std::string query;   // what follows '?', not decoded
    std::string accept;  // the Accept header, empty if there is none
    std::string origin;  // the same of Origin, and of Host
    std::string host;
    bool accepts_gzip = false;
};

struct Response {
    int status = 200;
    std::string content_type = "text/plain; charset=utf-8";
    // Shared, so that one rendered page can serve many requests; null is empty. The server
    // compresses it where the client wants that.
    std::shared_ptr<const std::string> body;
    // Of a 405: the methods that work.
    std::string allow = "GET, HEAD";
    // Lines of the head besides, each ended by "\r\n".
    std::string more_head{};
    // What of the request makes another body, besides whether it is compressed.
    std::string vary{};
};

// A response of one text.
[[nodiscard]] Response text_response(int status, std::string body);

// Answers one request. Called by several threads at once. What it throws becomes a 500.
using Handler = std::function<Response(const Request &)>;

struct Routes {
    // By exact path.
    std::map<std::string, Handler> pages;
    // These take POST and nothing else, and their requests' bodies are not read.
    std::map<std::string, Handler> actions{};
    // Pages that need no login.
    std::set<std::string> open{};
};

class Server {
public:
    // Answers what comes in at `listeners` from now on, on threads of its own (which inherit the
    // caller's signal mask), to those whom `access` lets in.
    [[nodiscard]] static Result<std::unique_ptr<Server>> start(std::vector<Listener> listeners,
                                                               std::unique_ptr<Access> access,
                                                               Routes routes);
    // The same at one address, for everybody.
    [[nodiscard]] static Result<std::unique_ptr<Server>> listen(
        const std::string &address, std::map<std::string, Handler> pages,
        std::map<std::string, Handler> actions = {});

    // Stops listening, cuts off clients that are still sending, and waits for running handlers.
    ~Server();
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;

    [[nodiscard]] const std::vector<Listener> &listeners() const { return listeners_; }
    [[nodiscard]] bool has_tls() const { return access_->has_tls(); }
    // The first port that is listened on, also where the address said 0; 0 if there is none.
    [[nodiscard]] std::uint16_t port() const;

    // Connections at one time; those past it wait.
    static constexpr int threads = 256;

private:
    Server(std::vector<Listener> listeners, std::unique_ptr<Access> access, Routes routes);

    [[nodiscard]] Result<> start();
    [[nodiscard]] Response answer(const Request &request, const AccessRules &rules,
                                  const std::string &authorization) const;
    [[nodiscard]] Response route(const Request &request) const;
    [[nodiscard]] std::optional<std::string> compress(const Request &request,
                                                      const Response &response) const;
    static int on_request(mg_connection *connection);
    static int on_error(mg_connection *connection, int status, const char *message);
    static int on_log(const mg_connection *connection, const char *message);
    static void *on_thread(const mg_context *context, int type);
    static int on_tls(void **context, void *server);

    std::vector<Listener> listeners_;
    std::unique_ptr<Access> access_;
    const Routes routes_;
    mutable std::counting_semaphore<> compressing_{4};
    CurrentTls current_tls_;
    std::shared_ptr<ssl_ctx_st> tls_;
    bool is_short_of_threads_ = false;  // said while they are being started
    std::binary_semaphore accepts_{0};
    mg_context *context_ = nullptr;
};

}  // namespace gpusnoop::http
