// Lines on their way to a sink: bounded, from any thread to one that writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/fd.h"

namespace gpusnoop::sinks {

class LineQueue {
public:
    // `max_bytes` is for all that was pushed and is not done. `wake` is an eventfd that does not
    // block.
    LineQueue(std::size_t max_bytes, Fd wake) : max_bytes_(max_bytes), wake_(std::move(wake)) {}

    // Adds a newline. False: there is no room. Never waits for the reader.
    [[nodiscard]] bool push(std::string_view line);

    // All that waits, without waiting for more. It takes room until it is done().
    [[nodiscard]] std::string take();
    void done(std::size_t bytes);

    // Bytes that were pushed and are not done.
    [[nodiscard]] std::size_t bytes() const;

    // Makes wake_fd() readable, as push() does; clear() ends that.
    void wake() const;
    void clear() const;
    [[nodiscard]] int wake_fd() const { return wake_.get(); }

private:
    std::size_t max_bytes_;
    Fd wake_;
    mutable std::mutex mutex_;
    std::string waiting_;
    std::size_t taken_ = 0;
};

}  // namespace gpusnoop::sinks
