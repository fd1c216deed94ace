// One thread of the demo workload that calls the driver, without a runtime.

#pragma once

#include "workload/options.h"
#include "workload/pacer.h"

#include "cuda_types.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace demo {

class DriverWorker {
public:
    DriverWorker(const Options &options, unsigned index);
    void run();

private:
    static constexpr std::size_t kBufferBytes = std::size_t{256} << 10U;

    bool begin();
    void iterate();
    void allocate_and_free();
    void copy();
    void launch();
    void fail();
    void use_other_memory();
    void finish();

    std::uint64_t random(std::uint64_t below) { return generator_() % below; }
    std::size_t random_size(unsigned largest_power);
    void pace() { pacer_.wait(); }

    const Options &options_;
    std::mt19937_64 generator_;
    Pacer pacer_;
    std::vector<char> host_;
    std::deque<standin::DevicePointer> memory_;
    standin::DevicePointer device_a_ = 0;
    standin::DevicePointer device_b_ = 0;
    std::vector<standin::DriverFunction> kernels_;
};

}  // namespace demo
