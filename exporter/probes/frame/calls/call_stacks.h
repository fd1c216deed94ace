// A probe's table of call stacks in the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exporter/probes/frame/allocations/call_sites.h"

namespace gpusnoop::probes {

// Both take the table's descriptor. `max_frames` is how many frames a stack has in the table.
//
// The addresses of a call site, innermost first.
[[nodiscard]] std::vector<std::uint64_t> addresses_of(int stacks, std::size_t max_frames,
                                                      const Site &site);
void forget_stack(int stacks, std::int32_t stack);

}  // namespace gpusnoop::probes
