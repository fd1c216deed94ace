#include "exporter/probes/cuda/copies/async_copies.h"

#include <algorithm>

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_streams = 64;
constexpr std::size_t max_copies = 64;

// cudaStreamLegacy and cudaStreamPerThread (driver_types.h) are the default stream by other names.
bool is_default(std::uint64_t stream) {
    return stream <= 2;
}

void end_before(auto &copies, std::uint64_t began_ns) {
    std::erase_if(copies, [&](const auto &copy) { return copy.ended_ns <= began_ns; });
}

}  // namespace

AsyncCopies::Queue &AsyncCopies::queue_of(std::uint64_t stream) {
    if (is_default(stream) || (queues_.size() >= max_streams && !queues_.contains(stream))) {
        stream = 0;
    }
    queues_.try_emplace(0, Queue{0, {}});
    return queues_.try_emplace(stream, Queue{static_cast<unsigned>(queues_.size()), {}})
        .first->second;
}

void AsyncCopies::submitted(std::uint64_t stream, std::uint64_t bytes, std::uint64_t ended_ns) {
    auto &copies = queue_of(stream).copies;
    if (copies.size() >= max_copies) {
        // Two become one that ends when the later one ends.
        copies[1].bytes += copies[0].bytes;
        copies[1].ended_ns = std::max(copies[0].ended_ns, copies[1].ended_ns);
        copies.erase(copies.begin());
    }
    copies.push_back({ended_ns, bytes});
}

void AsyncCopies::waited(std::uint64_t stream, std::uint64_t began_ns) {
    auto queue = queues_.find(is_default(stream) ? 0 : stream);
    if (queue == queues_.end() && queues_.size() >= max_streams) {
        queue = queues_.find(0);
    }
    if (queue != queues_.end()) {
        end_before(queue->second.copies, began_ns);
    }
}

void AsyncCopies::waited_for_all(std::uint64_t began_ns) {
    for (auto &[stream, queue] : queues_) {
        end_before(queue.copies, began_ns);
    }
}

std::vector<AsyncCopies::Stream> AsyncCopies::streams() const {
    std::vector<Stream> streams;
    for (const auto &[handle, queue] : queues_) {
        Stream &stream = streams.emplace_back(Stream{queue.number, 0});
        for (const Submitted &copy : queue.copies) {
            stream.bytes += copy.bytes;
        }
    }
    return streams;
}

}  // namespace gpusnoop::probes
