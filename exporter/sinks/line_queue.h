// A bounded queue of lines for a sink: any thread pushes, one thread writes.
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
    // `max_bytes` limits the lines that were pushed and are not done(). `wake` is a non-blocking
    // eventfd.
    LineQueue(std::size_t max_bytes, Fd wake) : max_bytes_(max_bytes), wake_(std::move(wake)) {}

    // Adds the line and a newline. False: the queue is full. Never waits for the reader.
    [[nodiscard]] bool push(std::string_view line);

    // All queued lines, without waiting for more. They count as queued until done().
    [[nodiscard]] std::string take();
    void done(std::size_t bytes);

    // Bytes that were pushed and are not done().
    [[nodiscard]] std::size_t bytes() const;

    // Makes wake_fd() readable, as push() does; clear() resets it.
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
