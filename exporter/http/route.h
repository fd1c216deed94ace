// What a server answers: requests, responses, and how many of them at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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

// How many requests are answered at a time. One that waits keeps its connection, but no thread.
struct Policy {
    std::size_t max_running = 1;
    // Requests over this are refused with 503.
    std::size_t max_waiting = 32;
    // Requests of the same text share one response, that of the first of them, while it waits or is
    // being made. Empty: each has its own.
    std::function<std::string(const Request &)> share{};
    // Requests that share one response; those over this are refused with 503.
    std::size_t max_sharing = 512;
};

struct Route {
    std::vector<std::string> paths;  // exact; they share the policy
    Handler handler;
    Policy policy{};
    // Takes POST and nothing else, and its requests' bodies are not read.
    bool is_action = false;
    // Needs no login.
    bool is_open = false;
};

}  // namespace gpusnoop::http
