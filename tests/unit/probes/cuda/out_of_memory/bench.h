// Programs that share a GPU and are refused its memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "tests/unit/probes/cuda/fixture.h"

namespace gpusnoop::probes {

inline constexpr std::uint64_t oom_gib = std::uint64_t{1} << 30U;
inline const std::string oom_family = "cuda_out_of_memory_total";

// Two programs on one GPU of 80 GiB: `train` (42) holds 8 GiB, `eval` (43) 66.
struct OutOfMemoryBench : Fixture {
    explicit OutOfMemoryBench(CudaSettings with = {}) : Fixture(std::move(with)) {
        allocations(process("train"));
        allocations(process("eval", 43, 2'000));
        allocations(allocation(0x1000, 8 * oom_gib, second_ns));
        allocations(of(43, 2'000, allocation(0x2000, 66 * oom_gib, second_ns)));
        calls(free_memory(5 * oom_gib, 80 * oom_gib, second_ns));
        until(2);
    }
    // Everything until then, in seconds, has happened.
    void until(std::uint64_t at) const { aggregator->apply_until(std::chrono::seconds(at)); }
};

}  // namespace gpusnoop::probes
