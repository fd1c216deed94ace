// Requests pages without libcurl.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/cli/top/client/access.h"
#include "exporter/cli/top/client/address.h"
#include "exporter/cli/top/client/answer.h"
#include "exporter/cli/top/client/client.h"

namespace gpusnoop::top {

// HTTP/1.1 at an address in numbers, "localhost" or a Unix socket; no TLS, no login. An epoll
// instance has the socket, and a timer.
class PlainClient : public Client {
public:
    // Whether it can make these requests.
    [[nodiscard]] static bool suits(const Address &address, const Access &access);
    [[nodiscard]] static Result<std::unique_ptr<Client>> make(Address address);

    void ask(const std::string &target) override;
    void give_up() override;
    [[nodiscard]] int fd() const override { return epoll_.get(); }
    [[nodiscard]] std::optional<Result<Answer>> take() override;

private:
    explicit PlainClient(Address address);

    void connect();
    void set_timer(timespec after);
    void wait_for(std::uint32_t events);
    void fail_with(std::string reason);
    void send();
    void receive();
    [[nodiscard]] bool has_all() const;
    [[nodiscard]] Result<Answer> answer();

    Address address_;
    Fd epoll_;
    Fd timer_;
    Fd socket_;
    bool has_ended_ = false;  // by the server
    std::string request_;     // what is not sent yet
    std::string received_;
    std::string failure_;  // empty: none
};

}  // namespace gpusnoop::top
