// The server's threads, and the parsing of requests: civetweb provides both.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/http/connections.h"
#include "exporter/http/route.h"

struct mg_connection;
struct mg_context;

namespace gpusnoop::http {

// One thread serves the connections; the others parse requests, hand them on, and run the work
// posted to the connections.
class Workers {
public:
    struct Handlers {
        // A request, and its Authorization header.
        std::function<void(std::unique_ptr<Connection>, Request, std::string)> request;
        // A refused request, and its status.
        std::function<void(std::unique_ptr<Connection>, int)> refusal;
    };

    // `tls` must outlive this; it is null for plain HTTP.
    [[nodiscard]] static Result<std::unique_ptr<Workers>> start(
        int count, std::shared_ptr<Connections> connections, ssl_ctx_st *tls, Handlers handlers);

    // Stops the connections, and waits for running work.
    ~Workers();
    Workers(const Workers &) = delete;
    Workers &operator=(const Workers &) = delete;

private:
    struct Worker;
    friend struct Hooks;

    Workers(int count, std::shared_ptr<Connections> connections, ssl_ctx_st *tls,
            Handlers handlers);
    [[nodiscard]] Result<> start(int count);
    static int on_request(mg_connection *connection);
    static int on_error(mg_connection *connection, int status, const char *message);
    static int on_log(const mg_connection *connection, const char *message);
    static void *on_thread(const mg_context *context, int type);

    const std::shared_ptr<Connections> connections_;
    ssl_ctx_st *const tls_;
    const Handlers handlers_;
    std::vector<Worker> workers_;
    std::atomic<std::size_t> started_ = 0;     // of them
    std::atomic<bool> lacks_threads_ = false;  // set while they are being started
    std::binary_semaphore serves_{0};
    bool is_served_ = false;
    mg_context *context_ = nullptr;
};

}  // namespace gpusnoop::http
