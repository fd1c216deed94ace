// Functions that are observed all the time, whatever they cost.
#pragma once

#include <string_view>

namespace gpusnoop::probes {

// By the symbol. CUDA's waits, copies, allocations and frees: what hangs, and who holds memory, has
// to be known. NCCL's functions: a rank with fewer operations than others looks as if it were
// behind.
[[nodiscard]] bool is_always_observed(std::string_view symbol);

}  // namespace gpusnoop::probes
