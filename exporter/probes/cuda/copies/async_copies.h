// What one process has submitted to copy and not waited for.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace gpusnoop::probes {

// An estimate: a copy counts as under way from when it was submitted until a call that waited for
// its stream, or for the device, began after that. Copies that end without anybody waiting are
// noticed late; events, callbacks and queries are not looked at.
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
    // Streams that were ever copied on, up to a limit; what is past it is with the default stream.
    [[nodiscard]] std::vector<Stream> streams() const;

private:
    struct Submitted {
        std::uint64_t ended_ns;
        std::uint64_t bytes;
    };
    struct Queue {
        unsigned number;
        std::vector<Submitted> copies;  // in time; the oldest are merged when there are many
    };
    Queue &queue_of(std::uint64_t stream);

    std::map<std::uint64_t, Queue> queues_;  // by handle
};

}  // namespace gpusnoop::probes
