// Asks an exporter for a page.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/top/address.h"

namespace gpusnoop::top {

struct Answer {
    int status = 0;
    std::string body;
};

// One request at a time, each on a thread of its own: looking up a name and connecting cannot be
// interrupted, and whoever asks may not want to wait that long. A request that is given up goes on
// by itself until it ends, half a minute at most, and nobody hears of it.
class Client {
public:
    // No answer is longer: what is, is an error.
    static constexpr std::size_t max_bytes = std::size_t{16} << 20;

    explicit Client(Address address);

    // Begins a GET of this path, with its query. A request before it is given up.
    void ask(const std::string &target);
    // Readable once there is something to take.
    [[nodiscard]] int fd() const { return ready_.get(); }
    // The answer to the last request, once; nothing while there is none. Errors are sentences.
    std::optional<Result<Answer>> take();

private:
    struct Request;

    Address address_;
    Fd ready_;  // an eventfd, which the threads have copies of
    std::shared_ptr<Request> request_;
};

}  // namespace gpusnoop::top
