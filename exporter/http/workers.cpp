#include "exporter/http/workers.h"

#include <civetweb.h>
#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/http/civetweb_hooks.h"
#include "exporter/http/request_parts.h"

namespace gpusnoop::http {

namespace {

std::string header(const mg_connection *connection, const char *name) {
    const char *value = mg_get_header(connection, name);
    return value == nullptr ? "" : value;
}

// Who may do what depends on these: of one that is there twice, a proxy may have read the other.
bool repeats_a_header(const mg_request_info &info) {
    return std::ranges::any_of(
        std::array{"Host", "Origin", "Authorization", "Sec-Fetch-Site"}, [&](const char *name) {
            return std::ranges::count_if(
                       std::span(info.http_headers)
                           .first(static_cast<std::size_t>(info.num_headers)),
                       [&](const mg_header &one) { return ::strcasecmp(one.name, name) == 0; }) > 1;
        });
}

// Proxies add at least one of these (RFC 7239; RFC 9110, 7.6.3; and older customs).
bool is_forwarded(const mg_connection *connection) {
    return std::ranges::any_of(
        std::array{"Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"},
        [&](const char *name) { return mg_get_header(connection, name) != nullptr; });
}

}  // namespace

// One thread, and the request that it is parsing.
struct Workers::Worker {
    Workers *workers = nullptr;
    std::unique_ptr<Connection> connection;
    std::string target_host;
};

// The hooks that civetweb's source calls: it is C, so no exception may pass through it.
struct Hooks {
    static void serve(void *workers) {
        auto *const self = static_cast<Workers *>(workers);
        while (!self->connections_->is_stopping()) {
            try {
                self->connections_->serve(self->tls_);
            } catch (const std::exception &) {  // out of memory: try again
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
            }
        }
    }
    static bool next(void *worker) {
        auto *const self = static_cast<Workers::Worker *>(worker);
        self->connection.reset();  // a request that civetweb dropped without a response
        self->target_host.clear();
        self->connection = self->workers->connections_->next();
        return self->connection != nullptr;
    }
    static void note_target(void *worker, std::string_view target) {
        auto *const self = static_cast<Workers::Worker *>(worker);
        try {
            self->target_host = target_host(target);
        } catch (const std::exception &) {  // out of memory
            self->target_host = "?";        // nobody's name, so the request is a stranger's
        }
    }
    static int read(void *worker, std::span<char> buffer) {
        constexpr int nothing_left = -2;
        const auto &connection = static_cast<Workers::Worker *>(worker)->connection;
        const std::size_t size = connection == nullptr ? 0 : connection->take_request(buffer);
        return size == 0 ? nothing_left : static_cast<int>(size);
    }
};

extern "C" void gpusnoop_serve_connections(void *server) {
    Hooks::serve(server);
}

extern "C" int gpusnoop_next_request(void *worker) {
    return Hooks::next(worker) ? 1 : 0;
}

extern "C" void gpusnoop_note_target(void *worker, const char *target) {
    Hooks::note_target(worker, target);
}

extern "C" int gpusnoop_read_request(void *worker, char *buffer, int size) {
    return Hooks::read(worker, {buffer, static_cast<std::size_t>(size)});
}

Workers::Workers(int count, std::shared_ptr<Connections> connections, ssl_ctx_st *tls,
                 Handlers handlers)
    : connections_(std::move(connections)),
      tls_(tls),
      handlers_(std::move(handlers)),
      workers_(static_cast<std::size_t>(count)) {
    mg_init_library(MG_FEATURES_DEFAULT);
}

Workers::~Workers() {
    connections_->stop();
    if (context_ != nullptr) {
        mg_stop(context_);
    }
    mg_exit_library();
}

Result<std::unique_ptr<Workers>> Workers::start(int count, std::shared_ptr<Connections> connections,
                                                ssl_ctx_st *tls, Handlers handlers) {
    std::unique_ptr<Workers> workers(
        new Workers(count, std::move(connections), tls, std::move(handlers)));
    if (const auto started = workers->start(count); !started) {
        if (workers->context_ != nullptr && !workers->is_served_) {
            // Without its master thread, civetweb waits for none of its other threads: they stay,
            // and use this object until the process ends.
            (void)workers.release();
        }
        return tl::unexpected<Error>(started.error());
    }
    return workers;
}

Result<> Workers::start(int count) {
    const std::string thread_count = std::to_string(count);
    const std::string request_size = std::to_string(Connection::max_request);
    // clang-format off
    const char *options[] = {
        "num_threads", thread_count.c_str(),
        "max_request_size", request_size.c_str(),
        "enable_keep_alive", "no",
        // Escapes stay as they were sent: %00 and similar then match nothing. civetweb does
        // normalize slashes and dots: //metrics and /x/../metrics are /metrics.
        "decode_url", "no",
        "enable_directory_listing", "no",
        "enable_auth_domain_check", "no",
        "access_control_allow_origin", "",
        "access_control_allow_methods", "",
        nullptr};
    // clang-format on
    mg_callbacks callbacks{};
    callbacks.begin_request = &Workers::on_request;
    callbacks.http_error = &Workers::on_error;
    callbacks.log_message = &Workers::on_log;
    callbacks.init_thread = &Workers::on_thread;
    mg_init_data init{};
    init.callbacks = &callbacks;
    init.user_data = this;
    init.configuration_options = options;
    std::array<char, 256> text{};
    mg_error_data error{};
    error.text = text.data();
    error.text_buffer_size = text.size();
    context_ = mg_start2(&init, &error);
    const std::string lacks_threads = fmt::format(
        "the HTTP server has not got its {} threads: raise the limit of "
        "tasks (TasksMax= of a unit, a container's limit of pids, ulimit -u)",
        count + 1);
    if (context_ == nullptr) {
        const std::string_view reason = text.data();
        // "Cannot create first worker thread: error 11"
        if (reason.starts_with("Cannot create") && reason.find("thread") != reason.npos) {
            return fail(lacks_threads);
        }
        return fail(reason.empty() ? "the HTTP server did not start" : std::string(reason));
    }
    // civetweb continues without threads that it could not start. If one of them is the thread that
    // serves the connections, no client is served.
    is_served_ = serves_.try_acquire_for(std::chrono::seconds(lacks_threads_ ? 1 : 10));
    if (lacks_threads_ || !is_served_) {
        return fail(lacks_threads);
    }
    return {};
}

int Workers::on_request(mg_connection *connection) {
    try {
        // Also stops civetweb from reading an unexpected body.
        mg_disable_connection_keep_alive(connection);
        const mg_request_info *info = mg_get_request_info(connection);
        auto *const worker = static_cast<Worker *>(mg_get_thread_pointer(connection));
        if (repeats_a_header(*info)) {
            worker->workers->handlers_.refusal(std::move(worker->connection), 400);
            return 200;  // the request is handled
        }
        Request request;
        request.method = info->request_method;
        request.path = info->local_uri == nullptr ? "" : info->local_uri;
        request.query = info->query_string == nullptr ? "" : info->query_string;
        request.accept = header(connection, "Accept");
        request.origin = header(connection, "Origin");
        request.host =
            worker->target_host.empty() ? header(connection, "Host") : worker->target_host;
        request.is_cross_site = header(connection, "Sec-Fetch-Site") == "cross-site";
        request.is_forwarded = is_forwarded(connection);
        request.accepts_gzip = accepts_gzip(header(connection, "Accept-Encoding"));
        worker->workers->handlers_.request(std::move(worker->connection), std::move(request),
                                           header(connection, "Authorization"));
    } catch (const std::exception &error) {  // out of memory: closed without a response
        log::debug("http", {{"detail", error.what()}});
    }
    return 200;  // the request is handled
}

// civetweb's own response would repeat text from the client as the protocol.
int Workers::on_error(mg_connection *connection, int status, const char *) {
    try {
        auto *const worker = static_cast<Worker *>(mg_get_thread_pointer(connection));
        if (worker->connection != nullptr) {
            worker->workers->handlers_.refusal(std::move(worker->connection), status);
        }
    } catch (const std::exception &error) {  // out of memory: closed without a response
        log::debug("http", {{"detail", error.what()}});
    }
    return 0;
}

void *Workers::on_thread(const mg_context *context, int type) {
    constexpr int serving = 0;
    constexpr int working = 1;
    auto *const self = static_cast<Workers *>(mg_get_user_data(context));
    if (type == serving) {
        self->serves_.release();
    }
    if (type != working) {
        return nullptr;
    }
    Worker &worker = self->workers_.at(self->started_++);
    worker.workers = self;
    return &worker;
}

// Scanners and broken clients cause these messages; they are not errors of the exporter.
int Workers::on_log(const mg_connection *connection, const char *message) {
    try {
        auto *const self = static_cast<Workers *>(mg_get_user_data(mg_get_context(connection)));
        if (self != nullptr &&
            std::string_view(message).starts_with("Cannot start worker thread")) {
            self->lacks_threads_ = true;
        }
        log::debug("http", {{"detail", message}});
    } catch (...) {
        return 1;
    }
    return 1;
}

}  // namespace gpusnoop::http
