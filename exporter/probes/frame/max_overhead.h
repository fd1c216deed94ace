// What the probes may cost a process: `cuda: {max_overhead: 3%}`.
#pragma once

#include <cstdint>

namespace gpusnoop::probes {

// The block `cuda:` has it. All probes that can observe a process less keep it.
struct MaxOverhead {
    std::uint32_t percent = 3;  // of one CPU; 0: no limit
    bool operator==(const MaxOverhead &) const = default;

    // The counted cost is a lower bound: PyTorch on a GPU lost twice of it and more
    // (docs/performance.md).
    static constexpr std::int64_t true_cost = 2;
};

}  // namespace gpusnoop::probes
