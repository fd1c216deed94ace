#include "exporter/http/connection.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "exporter/http/civetweb_hooks.h"

namespace gpusnoop::http {

namespace {

// The most bytes of a response in one call: OpenSSL counts in ints.
constexpr std::size_t piece = 1U << 20U;
// The most bytes read after the request, before the connection is closed: if bytes were unread, the
// kernel would reset the connection and drop the unsent part of the response.
constexpr std::size_t most_drained = 64U << 10U;

bool must_wait(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

bool has_whole_head(const std::string &text) {
    return gpusnoop_head_length(text.data(), static_cast<int>(text.size())) != 0;
}

}  // namespace

void Connection::FreeSsl::operator()(ssl_st *ssl) const {
    SSL_free(ssl);
}

Connection::Connection(Fd fd, ssl_ctx_st *tls, Clock::time_point now)
    : fd_(std::move(fd)), tls_(tls), deadline_(now + request_timeout) {}

Connection::~Connection() {
    if (!is_answering_) {
        return;
    }
    if (is_encrypted_) {
        ERR_clear_error();
        SSL_shutdown(ssl_.get());
        ERR_clear_error();
    }
    ::shutdown(fd_.get(), SHUT_WR);
    std::array<char, 4096> rest;
    for (std::size_t drained = 0; drained < most_drained; drained += rest.size()) {
        if (::recv(fd_.get(), rest.data(), rest.size(), MSG_DONTWAIT) <= 0) {
            return;
        }
    }
}

Connection::Step Connection::advance() {
    has_begun_ = true;
    if (is_answering_) {
        return send_answer();
    }
    if (tls_ != nullptr && !is_encrypted_) {
        if (const Step step = shake_hands(); !is_encrypted_) {
            return step;
        }
    }
    return read_request();
}

Connection::Step Connection::shake_hands() {
    ERR_clear_error();
    if (ssl_ == nullptr) {
        ssl_.reset(SSL_new(tls_));
        if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), fd_.get()) != 1) {
            return Step::closed;
        }
        SSL_set_accept_state(ssl_.get());
        SSL_set_mode(ssl_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                     SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                     SSL_MODE_RELEASE_BUFFERS);
        // Else a client that sends key updates without end blocks a worker in SSL_read().
        SSL_clear_mode(ssl_.get(), SSL_MODE_AUTO_RETRY);
    }
    const int result = SSL_do_handshake(ssl_.get());
    is_encrypted_ = result == 1;
    return tls_wait(result);
}

Connection::Step Connection::tls_wait(int result) const {
    const int error = SSL_get_error(ssl_.get(), result);
    ERR_clear_error();
    return error == SSL_ERROR_WANT_READ    ? Step::wait_readable
           : error == SSL_ERROR_WANT_WRITE ? Step::wait_writable
                                           : Step::closed;
}

// 0 at the end or after an error; negative if it would block, with the condition in `wait`.
std::ptrdiff_t Connection::read_some(std::span<char> buffer, Step &wait) {
    if (ssl_ == nullptr) {
        const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
        wait = Step::wait_readable;
        return n >= 0 ? n : must_wait(errno) ? -1 : 0;
    }
    ERR_clear_error();
    const int n = SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()));
    if (n > 0) {
        return n;
    }
    wait = tls_wait(n);
    return wait == Step::closed ? 0 : -1;
}

// The same for writing.
std::ptrdiff_t Connection::write_some(std::span<const char> bytes, Step &wait) {
    if (ssl_ == nullptr) {
        const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        wait = Step::wait_writable;
        return n >= 0 ? n : must_wait(errno) ? -1 : 0;
    }
    ERR_clear_error();
    const int n = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
    if (n > 0) {
        return n;
    }
    wait = tls_wait(n);
    return wait == Step::closed ? 0 : -1;
}

Connection::Step Connection::read_request() {
    std::array<char, max_request> buffer;
    while (request_.text.size() < max_request && !has_whole_head(request_.text)) {
        Step wait = Step::closed;
        const auto n = read_some(std::span(buffer).first(max_request - request_.text.size()), wait);
        if (n < 0) {
            return wait;
        }
        if (n == 0) {
            return request_.text.empty() ? Step::closed : Step::request;
        }
        request_.text.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return Step::request;
}

std::size_t Connection::take_request(std::span<char> buffer) {
    const std::size_t size = std::min(buffer.size(), request_.text.size() - request_.taken);
    request_.text.copy(buffer.data(), size, request_.taken);
    request_.taken += size;
    return size;
}

void Connection::answer(std::string head, std::shared_ptr<const std::string> body) {
    const auto now = Clock::now();
    answer_.head = std::move(head);
    answer_.body = std::move(body);
    request_.text = {};
    is_answering_ = true;
    deadline_ = now + stall_timeout;
    last_deadline_ = now + answer_timeout;
}

Connection::Step Connection::send_answer() {
    const std::size_t body_size = answer_.body == nullptr ? 0 : answer_.body->size();
    while (answer_.sent < answer_.head.size() + body_size) {
        std::span<const char> rest(answer_.head);
        if (answer_.sent < answer_.head.size()) {
            rest = rest.subspan(answer_.sent);
        } else {
            rest = std::span<const char>(*answer_.body).subspan(answer_.sent - answer_.head.size());
        }
        Step wait = Step::closed;
        const auto n = write_some(rest.first(std::min(piece, rest.size())), wait);
        if (n <= 0) {
            return n < 0 ? wait : Step::closed;
        }
        answer_.sent += static_cast<std::size_t>(n);
        if (answer_.sent >= answer_.sent_at_deadline + least_progress) {
            answer_.sent_at_deadline = answer_.sent;
            deadline_ = std::min(Clock::now() + stall_timeout, last_deadline_);
        }
    }
    return Step::closed;
}

}  // namespace gpusnoop::http
