// One thread of the demo workload.

#pragma once

#include "workload/options.h"
#include "workload/pacer.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>
#include <vector>

namespace demo {

// Device memory that any thread may free.
class SharedMemory {
public:
    // Returns what has to leave for it, if there are more than `room`: any one, or nullptr.
    void *exchange(void *pointer, std::size_t room, std::uint64_t random);
    std::vector<void *> take_all();

private:
    std::mutex mutex_;
    std::vector<void *> pointers_;
};

class Worker {
public:
    Worker(const Options &options, unsigned index, SharedMemory &shared);
    void run();

private:
    static constexpr std::size_t kBufferBytes = std::size_t{256} << 10U;

    void iterate();
    void allocate_and_free();
    void copy();
    void launch_kernels();
    void fail();
    void use_other_memory();

    std::uint64_t random(std::uint64_t below);
    std::size_t random_size(unsigned largest_power);
    int direction(int known);
    void pace() { pacer_.wait(); }

    const Options &options_;
    SharedMemory &shared_;
    std::mt19937_64 generator_;
    Pacer pacer_;
    std::vector<float> host_a_;
    std::vector<float> host_b_;
    void *device_a_ = nullptr;
    void *device_b_ = nullptr;
};

}  // namespace demo
