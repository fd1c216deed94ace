// What a server can answer: requests, responses, and the limits of a route.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::http {

struct Request {
    std::string
        method;  // "GET" or "HEAD", or "POST" for an action; a handler need not distinguish them
    std::string path;    // without the query, not decoded
    std::string query;   // the part after '?', not decoded
    std::string accept;  // the Accept header, empty if absent
    std::string origin;  // the Origin header, empty if absent
    std::string host;    // of an absolute target, else the Host header, empty if absent
    bool accepts_gzip = false;
    bool is_cross_site = false;  // a browser says that a page of another site has asked for it
    bool is_forwarded = false;   // a proxy says that it sends this for somebody else
    // The client is on this machine (the loopback, a Unix socket) and no proxy, or it has given a
    // login or a certificate that every client needs.
    bool is_trusted = false;
};

struct Response {
    int status = 200;
    std::string content_type = "text/plain; charset=utf-8";
    // Shared, so that one rendered page can serve many requests; null is empty. The server
    // compresses it if the client accepts that.
    std::shared_ptr<const std::string> body;
    // For a 405: the methods that the route takes.
    std::string allow = "GET, HEAD";
    // More header lines, each ended by "\r\n".
    std::string more_head{};
    // Most show the current state.
    std::string_view cache_control = "no-store";
    // The request headers that change the body, besides Accept-Encoding.
    std::string vary{};
    bool is_compressed = false;  // as it is: the server does not compress it again
};

// A response with a plain text.
[[nodiscard]] Response text_response(int status, std::string body);
// The 403 for a client that may not see what programs do, with what to do instead.
[[nodiscard]] Response private_response();

// Answers one request. Called by several threads at the same time. An exception becomes a 500.
using Handler = std::function<Response(const Request &)>;

struct Pending;

// Begins to answer a request, on a thread of the server, and returns at once. An exception becomes
// a 500.
using Begin = std::function<void(const Request &, Pending)>;

// How many requests are answered at the same time. A waiting request keeps its connection, but no
// thread.
struct Policy {
    std::size_t max_running = 1;
    // Requests over this are refused with 503.
    std::size_t max_waiting = 32;
    // Requests with the same key share the response of the first of them, while that one waits or
    // runs. Empty: each request has its own.
    std::function<std::string(const Request &)> share{};
    // The most requests that share one response; requests over this are refused with 503.
    std::size_t max_sharing = 512;
};

struct Route {
    std::vector<std::string> paths;  // exact; they share the policy
    Handler handler{};
    Policy policy{};
    // Instead of the handler and its policy, for responses that take long. Takes only GET.
    Begin begin{};
    // Takes only POST, and ignores the requests' bodies.
    bool is_action = false;
    // Needs no login.
    bool is_open = false;
    // Refuses clients that are not trusted.
    bool is_private = false;
};

// Owns the client's connection. Without a response, the client is disconnected.
struct Pending {
    // The client's socket, for poll(): POLLRDHUP says that the client has gone away. Open as long
    // as `answer` exists.
    int client = -1;
    // Sends the response, once. For any thread, as long as the server exists.
    std::function<void(Response)> answer;
};

}  // namespace gpusnoop::http
