// The use of resources by a consuming thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace gpusnoop::bench {

struct Spent {
    std::chrono::nanoseconds cpu{};
    std::uint64_t rounds = 0;       // drains of the rings
    std::uint64_t sleeps = 0;       // voluntary switches: as many as wakeups
    std::uint64_t allocations = 0;  // calls of operator new

    Spent operator-(const Spent &before) const {
        return {cpu - before.cpu, rounds - before.rounds, sleeps - before.sleeps,
                allocations - before.allocations};
    }
};

class Meter {
public:
    // For the consuming thread, after each round; its allocations count from the first round on.
    void note_round();
    // As of the last round. For any thread.
    [[nodiscard]] Spent spent() const;

private:
    std::atomic<std::uint64_t> cpu_ns_ = 0;
    std::atomic<std::uint64_t> rounds_ = 0;
    std::atomic<std::uint64_t> sleeps_ = 0;
    std::atomic<std::uint64_t> allocations_ = 0;
};

}  // namespace gpusnoop::bench
