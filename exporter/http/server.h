// The HTTP server: a few fixed paths, answered on request. Built to be left alone on a network:
// small requests only, GET and HEAD only but where a path takes POST, short timeouts, no files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "exporter/base/result.h"

struct mg_connection;
struct mg_context;

namespace gpusnoop::http {

struct Request {
    std::string
        method;  // "GET" or "HEAD", or "POST" for an action; a handler need not tell them apart
    std::string path;    // without the query, not decoded
    std::string query;   // what follows '?', not decoded
    std::string accept;  // the Accept header, empty if there is none
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
};

// A response of one text.
[[nodiscard]] Response text_response(int status, std::string body);

// Answers one request. Called by several threads at once. What it throws becomes a 500.
using Handler = std::function<Response(const Request &)>;

class Server {
public:
    // Listens and answers from now on, on threads of its own (which inherit the caller's signal
    // mask). `address` is as parse_listen_address takes it; ":PORT" listens on IPv6 too where the
    // machine has it. `routes` maps exact paths to handlers; those of `actions` take POST and
    // nothing else, and their requests' bodies are not read. Errors:
    // "cannot listen on :19435: address already in use".
    [[nodiscard]] static Result<std::unique_ptr<Server>> listen(
        const std::string &address, std::map<std::string, Handler> routes,
        std::map<std::string, Handler> actions = {});

    // Stops listening, cuts off clients that are still sending, and waits for running handlers.
    ~Server();
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;

    // The port that is listened on, also where the address said 0.
    [[nodiscard]] std::uint16_t port() const { return port_; }

private:
    Server(std::map<std::string, Handler> routes, std::map<std::string, Handler> actions);

    [[nodiscard]] Result<> start(const std::string &ports);
    [[nodiscard]] Response answer(const Request &request) const;
    static int on_request(mg_connection *connection);
    static int on_error(mg_connection *connection, int status, const char *message);
    static int on_log(const mg_connection *connection, const char *message);

    std::map<std::string, Handler> routes_;
    std::map<std::string, Handler> actions_;
    mg_context *context_ = nullptr;
    std::uint16_t port_ = 0;
};

}  // namespace gpusnoop::http
