// The asynchronous copies of one process that no call has waited for.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace gpusnoop::probes {

// An estimate: a copy counts as under way from its submission until a later call waits for its
// stream or for the device. Copies that end without a waiting call are noticed late; events,
// callbacks and queries are ignored.
class AsyncCopies {
public:
    // Times are the kernel's monotonic clock in nanoseconds.
    void submitted(std::uint64_t stream, std::uint64_t bytes, std::uint64_t ended_ns);
    void waited(std::uint64_t stream, std::uint64_t began_ns);
    void waited_for_all(std::uint64_t began_ns);

    struct Stream {
        unsigned number = 0;  // in the order of their first copies, from 1 on; 0: the default one
        std::uint64_t bytes = 0;
    };
    // Streams that ever had a copy, up to a limit; further ones are added to the default stream.
    [[nodiscard]] std::vector<Stream> streams() const;

private:
    struct Submitted {
        std::uint64_t ended_ns;
        std::uint64_t bytes;
    };
    struct Queue {
        unsigned number;
        std::vector<Submitted> copies;  // by time; the oldest are merged when there are many
    };
    Queue &queue_of(std::uint64_t stream);

    std::map<std::uint64_t, Queue> queues_;  // by handle
};

}  // namespace gpusnoop::probes
