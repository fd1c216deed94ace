// A document for people and programs that look for a leak.
#pragma once

#include <string_view>
#include <vector>

#include "exporter/probes/frame/allocations/process_allocations.h"
#include "exporter/probes/frame/api/api_page.h"

namespace gpusnoop::probes {

// The pages that have this form, by their probes.
inline constexpr std::string_view cuda_allocations_page_name = "allocations";
inline constexpr std::string_view torch_allocations_page_name = "torch_allocations";

// `name`: the allocations of each process by call site, the largest amounts first, as JSON or as
// folded stacks. docs/api.md describes the parameters and the formats.
[[nodiscard]] ApiPage allocations_page(std::string_view name, std::vector<ProcessAllocations> all);

}  // namespace gpusnoop::probes
