// Requests pages from an exporter.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/cli/top/client/access.h"
#include "exporter/cli/top/client/address.h"
#include "exporter/cli/top/client/answer.h"
#include "exporter/cli/top/client/libcurl.h"

namespace gpusnoop::top {

// One request at a time, which never blocks: the caller waits until fd() is readable, and then
// calls take(). Never uses a proxy. Uses libcurl's event interface: an epoll instance has libcurl's
// sockets, and a timer for its timeouts.
class Client {
public:
    // A longer response is an error.
    static constexpr std::size_t max_bytes = std::size_t{16} << 20;

    // Reads the login and loads libcurl. Errors are sentences.
    [[nodiscard]] static Result<std::unique_ptr<Client>> make(Address address,
                                                              const Access &access);

    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;
    ~Client() { give_up(); }

    // Begins a GET of this path and query. Cancels an earlier request.
    void ask(const std::string &target);
    // Cancels the request, if there is one.
    void give_up();
    // Readable when the request may have made progress.
    [[nodiscard]] int fd() const { return epoll_.get(); }
    // Continues the request. Returns its response once, after its end. Errors are sentences.
    [[nodiscard]] std::optional<Result<Answer>> take();

private:
    Client(const Libcurl &curl, Address address, Access access, std::string login);

    static int on_socket(CURL *easy, curl_socket_t socket, int what, void *self, void *known);
    static int on_timer(CURLM *multi, long after_ms, void *self);
    static std::size_t on_body(const char *data, std::size_t size, std::size_t count, void *self);

    void set_options(const std::string &url);
    void set_access();
    template <typename Value>
    void set(CURLoption option, Value value) {
        refused_ = refused_ || curl_.easy_setopt(easy_.get(), option, value) != CURLE_OK;
    }
    void act(curl_socket_t socket, int events);
    [[nodiscard]] Result<Answer> answer(CURLcode code);
    [[nodiscard]] std::string reason(CURLcode code) const;

    Libcurl curl_;
    Address address_;
    Access access_;
    std::string login_;
    Fd epoll_;
    Fd timer_;
    std::unique_ptr<CURLM, decltype(&::curl_multi_cleanup)> multi_;
    std::unique_ptr<CURL, decltype(&::curl_easy_cleanup)> easy_;  // while there is a request
    bool refused_ = false;                                        // libcurl refused an option
    std::array<char, CURL_ERROR_SIZE> error_{};
    std::string body_;
};

}  // namespace gpusnoop::top
