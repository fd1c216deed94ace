// A document for people and programs that look for a leak.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "exporter/probes/frame/api_resource.h"
#include "exporter/probes/frame/process_allocations.h"

namespace gpusnoop::probes {

// Sites that do not fit are omitted and counted, the sites of the smallest processes first.
inline constexpr std::size_t max_allocations_bytes = std::size_t{8} << 20;

// The documents that have this form, by their probes.
inline constexpr std::string_view cuda_allocations_document = "allocations";
inline constexpr std::string_view torch_allocations_document = "torch_allocations";

// `name`: the allocations of each process by call site, the largest amounts first, as JSON or as
// folded stacks. docs/api.md describes the parameters and the formats.
[[nodiscard]] ApiResource allocations_document(std::string_view name,
                                               std::vector<ProcessAllocations> all);

}  // namespace gpusnoop::probes
