// Requests pages by libcurl.
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
#include "exporter/cli/top/client/client.h"
#include "exporter/cli/top/client/libcurl.h"

namespace gpusnoop::top {

// Uses libcurl's event interface: an epoll instance has libcurl's sockets, and a timer for its
// timeouts.
class CurlClient : public Client {
public:
    // Reads the login. Errors are sentences.
    [[nodiscard]] static Result<std::unique_ptr<Client>> make(const Libcurl &curl, Address address,
                                                              const Access &access);

    CurlClient(const CurlClient &) = delete;
    CurlClient &operator=(const CurlClient &) = delete;
    ~CurlClient() override { CurlClient::give_up(); }

    void ask(const std::string &target) override;
    void give_up() override;
    [[nodiscard]] int fd() const override { return epoll_.get(); }
    [[nodiscard]] std::optional<Result<Answer>> take() override;

private:
    CurlClient(const Libcurl &curl, Address address, Access access, std::string login);

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
