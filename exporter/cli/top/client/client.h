// Requests pages from an exporter.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "exporter/base/result.h"
#include "exporter/cli/top/client/access.h"
#include "exporter/cli/top/client/address.h"
#include "exporter/cli/top/client/answer.h"

namespace gpusnoop::top {

// One request at a time, which never blocks: the caller waits until fd() is readable, and then
// calls take(). Never uses a proxy.
class Client {
public:
    // A longer response is an error.
    static constexpr std::size_t max_bytes = std::size_t{16} << 20;

    // By libcurl. Without that library, as in our image, requests that need neither TLS nor a login
    // nor the address of a name are made without it. Errors are sentences.
    [[nodiscard]] static Result<std::unique_ptr<Client>> make(Address address,
                                                              const Access &access);

    Client() = default;
    virtual ~Client() = default;
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;

    // Begins a GET of this path and query. Cancels an earlier request.
    virtual void ask(const std::string &target) = 0;
    // Cancels the request, if there is one.
    virtual void give_up() = 0;
    // Readable when the request may have made progress.
    [[nodiscard]] virtual int fd() const = 0;
    // Continues the request. Returns its response once, after its end. Errors are sentences.
    [[nodiscard]] virtual std::optional<Result<Answer>> take() = 0;
};

}  // namespace gpusnoop::top
