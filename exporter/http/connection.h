// One client: its socket, its TLS, its request and the response to it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "exporter/base/fd.h"

struct ssl_st;
struct ssl_ctx_st;

namespace gpusnoop::http {

// Never waits for the client: it continues when the socket is ready. Used by one thread at a time.
class Connection {
public:
    using Clock = std::chrono::steady_clock;

    // The client must have sent its request within `request_timeout` of connecting, and must take
    // `least_progress` bytes of the response in each `stall_timeout`, and all of it within
    // `answer_timeout`: until it has everything, it keeps the page in memory.
    static constexpr std::chrono::seconds request_timeout{2};
    static constexpr std::chrono::seconds stall_timeout{2};
    static constexpr std::chrono::seconds answer_timeout{60};
    static constexpr std::size_t least_progress = 256U << 10U;
    // The limit for the request's first line and headers.
    static constexpr std::size_t max_request = 4096;

    enum class Step : std::uint8_t {
        wait_readable,  // continue when the socket can be read,
        wait_writable,  // or written
        request,        // the request is here, as far as it will come
        closed,         // finished
    };

    // `tls`: null for plain HTTP. The socket does not block.
    Connection(Fd fd, ssl_ctx_st *tls, Clock::time_point now);
    // Sends TLS's close notification, without waiting.
    ~Connection();
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    // Continues with the handshake and the request, or with the response.
    [[nodiscard]] Step advance();

    // Takes the remaining bytes of the request, as many as `buffer` holds.
    [[nodiscard]] std::size_t take_request(std::span<char> buffer);

    // Sets the response that advance() sends from now on. Null is an empty body.
    void answer(std::string head, std::shared_ptr<const std::string> body);

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] Clock::time_point deadline() const { return deadline_; }
    // Whether any bytes came: until then, the connection allocates no other memory.
    [[nodiscard]] bool has_begun() const { return has_begun_; }

private:
    struct FreeSsl {
        void operator()(ssl_st *ssl) const;
    };

    [[nodiscard]] Step shake_hands();
    [[nodiscard]] Step read_request();
    [[nodiscard]] Step send_answer();
    [[nodiscard]] std::ptrdiff_t read_some(std::span<char> buffer, Step &wait);
    [[nodiscard]] std::ptrdiff_t write_some(std::span<const char> bytes, Step &wait);
    [[nodiscard]] Step tls_wait(int result) const;

    Fd fd_;
    ssl_ctx_st *tls_;
    std::unique_ptr<ssl_st, FreeSsl> ssl_;
    bool has_begun_ = false;
    bool is_encrypted_ = false;  // the handshake is done
    bool is_answering_ = false;
    struct Request {
        std::string text;
        std::size_t taken = 0;  // of it, by take_request()
    };
    Request request_;
    struct Answer {
        std::string head;
        std::shared_ptr<const std::string> body;
        std::size_t sent = 0;              // of both
        std::size_t sent_at_deadline = 0;  // when the deadline was last extended
    };
    Answer answer_;
    Clock::time_point deadline_;
    Clock::time_point last_deadline_;
};

}  // namespace gpusnoop::http
