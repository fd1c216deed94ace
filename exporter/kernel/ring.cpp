#include "exporter/kernel/ring.h"

#include <bpf/libbpf.h>

#include <thread>

namespace gpusnoop::kernel {

void Ring::Deleter::operator()(ring_buffer *ring) const {
    ring_buffer__free(ring);
}

Ring::~Ring() = default;

int Ring::on_sample(void *self, void *data, std::size_t size) {
    auto *ring = static_cast<Ring *>(self);
    ring->on_record_({static_cast<const std::byte *>(data), size});
    // A negative answer ends the round behind this record: producers could be as fast as we are.
    return ring->consumed() >= ring->limit_ ? -ECANCELED : 0;
}

Result<std::unique_ptr<Ring>> Ring::open(int map_fd, OnRecord on_record) {
    std::unique_ptr<Ring> ring(new Ring(std::move(on_record)));
    ring->ring_.reset(ring_buffer__new(map_fd, on_sample, ring.get(), nullptr));
    if (!ring->ring_) {
        return fail_errno("map a ring buffer");
    }
    return ring;
}

void Ring::drain(std::uint64_t position) {
    if (draining_) {
        return;  // called by what it calls
    }
    draining_ = true;
    limit_ = position;
    ring_buffer__consume(ring_.get());
    draining_ = false;
}

bool Ring::drain_to(std::uint64_t position) {
    // Writing a record takes well under a microsecond, unless its CPU is taken away.
    constexpr int tries = 1000;
    for (int i = 0; i < tries && !draining_; i++) {
        if (consumed() >= position) {
            return true;
        }
        drain(position);
        if (consumed() < position) {
            std::this_thread::yield();
        }
    }
    return consumed() >= position;
}

std::uint64_t Ring::produced() const {
    return ring__producer_pos(ring_buffer__ring(ring_.get(), 0));
}

std::uint64_t Ring::consumed() const {
    return ring__consumer_pos(ring_buffer__ring(ring_.get(), 0));
}

}  // namespace gpusnoop::kernel
