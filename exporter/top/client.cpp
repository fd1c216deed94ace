#include "exporter/top/client.h"

#include <civetweb.h>
#include <fcntl.h>
#include <sys/eventfd.h>

#include <array>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "exporter/base/text.h"

namespace gpusnoop::top {

namespace {

constexpr int patience_ms = 5'000;

using Connection = std::unique_ptr<mg_connection, decltype(&mg_close_connection)>;

// civetweb says "connect(127.0.0.1:1): error Connection refused".
std::string reason_of(std::string_view text) {
    for (const std::string_view begin : {"): error ", "): "}) {
        if (const auto at = text.find(begin); at != std::string_view::npos) {
            text.remove_prefix(at + begin.size());
        }
    }
    return to_valid_utf8(text, 128);
}

Result<Answer> get(const Address &address, const std::string &target) {
    const std::string where = "cannot reach " + address.text();
    std::array<char, 256> error{};
    const Connection connection(
        mg_connect_client(address.host.c_str(), address.port, 0, error.data(), error.size()),
        &mg_close_connection);
    if (connection == nullptr) {
        return fail(where + ": " + reason_of(error.data()));
    }
    const std::string request = "GET " + address.path + target +
                                " HTTP/1.1\r\nHost: " + address.host_and_port() +
                                "\r\nAccept: application/json\r\nConnection: close\r\n\r\n";
    if (mg_write(connection.get(), request.data(), request.size()) !=
        static_cast<int>(request.size())) {
        return fail(where + ": it does not take a request");
    }
    if (mg_get_response(connection.get(), error.data(), error.size(), patience_ms) < 0) {
        return fail(where + ": there was no HTTP answer");
    }
    const mg_response_info *const info = mg_get_response_info(connection.get());
    Answer answer;
    answer.status = info->status_code;
    const long long length = info->content_length;
    std::array<char, 65'536> piece{};
    for (;;) {
        const int got = mg_read(connection.get(), piece.data(), piece.size());
        if (got <= 0) {
            break;
        }
        answer.body.append(piece.data(), static_cast<std::size_t>(got));
        if (answer.body.size() > Client::max_bytes) {
            return fail(address.text() + " answered more than an exporter does");
        }
    }
    if (length >= 0 && answer.body.size() != static_cast<std::size_t>(length)) {
        return fail(where + ": the answer was cut off");
    }
    return answer;
}

}  // namespace

struct Client::Request {
    std::mutex mutex;
    std::optional<Result<Answer>> answer;
};

Client::Client(Address address)
    : address_(std::move(address)), ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    // For the rest of the program's life, as requests that were given up may outlive this.
    mg_init_library(MG_FEATURES_DEFAULT);
}

void Client::ask(const std::string &target) {
    request_ = std::make_shared<Request>();
    std::thread([request = request_, address = address_, target,
                 ready = Fd(::fcntl(ready_.get(), F_DUPFD_CLOEXEC, 0))] {
        Result<Answer> answer = fail("");
        try {
            answer = get(address, target);
        } catch (const std::exception &error) {  // out of memory
            answer = fail(error.what());
        }
        {
            const std::lock_guard lock(request->mutex);
            request->answer = std::move(answer);
        }
        (void)::eventfd_write(ready.get(), 1);
    }).detach();
}

std::optional<Result<Answer>> Client::take() {
    eventfd_t count = 0;
    (void)::eventfd_read(ready_.get(), &count);
    if (request_ == nullptr) {
        return std::nullopt;
    }
    const std::lock_guard lock(request_->mutex);
    return std::exchange(request_->answer, std::nullopt);
}

}  // namespace gpusnoop::top
