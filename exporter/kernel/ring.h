// Reads one BPF ring buffer. Not thread-safe: one thread reads a ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "exporter/base/result.h"

struct ring_buffer;

namespace gpusnoop::kernel {

class Ring {
public:
    // A record as the kernel laid it out; valid only during the call.
    using OnRecord = std::function<void(std::span<const std::byte>)>;

    // `map_fd` is a BPF_MAP_TYPE_RINGBUF; it must live as long as the Ring.
    static Result<std::unique_ptr<Ring>> open(int map_fd, OnRecord on_record);
    ~Ring();
    Ring(const Ring &) = delete;
    Ring &operator=(const Ring &) = delete;

    // Hands over the records up to a position of produced(), and no more than one beyond. A record
    // that is just being written holds back those behind it; it is waited for, but not long. False:
    // it took too long, or this was called by what it calls.
    bool drain_to(std::uint64_t position);

    // Positions since the ring was made, in bytes. A record that begins before `produced()` is
    // complete and handed over once `consumed()` has passed it.
    [[nodiscard]] std::uint64_t produced() const;
    [[nodiscard]] std::uint64_t consumed() const;

private:
    struct Deleter {
        void operator()(ring_buffer *ring) const;
    };

    explicit Ring(OnRecord on_record) : on_record_(std::move(on_record)) {}
    void drain(std::uint64_t position);
    static int on_sample(void *self, void *data, std::size_t size);

    OnRecord on_record_;
    bool draining_ = false;
    std::uint64_t limit_ = 0;  // where the round in progress may end
    std::unique_ptr<ring_buffer, Deleter> ring_;
};

}  // namespace gpusnoop::kernel
