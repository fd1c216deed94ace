// The CUDA probe's API for people and programs that look for a leak.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "exporter/probes/frame/api_resource.h"

namespace gpusnoop::probes {

struct ProcessAllocations;

// Sites that do not fit are omitted and counted, the sites of the smallest processes first.
inline constexpr std::size_t max_allocations_bytes = std::size_t{8} << 20;

inline constexpr std::string_view allocations_document_name = "allocations";

// "allocations": the allocations of each process by call site, the largest amounts first, as JSON
// or as folded stacks. docs/api.md describes the parameters and the formats.
[[nodiscard]] ApiResource allocations_document(std::vector<ProcessAllocations> all);

}  // namespace gpusnoop::probes
