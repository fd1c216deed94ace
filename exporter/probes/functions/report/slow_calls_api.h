// The API of the last slow calls, for people and programs that look for the cause.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "exporter/probes/frame/api_resource.h"
#include "exporter/probes/functions/report/slow_calls.h"

namespace gpusnoop::probes {

inline constexpr std::string_view slow_calls_document_name = "slow_calls";

// Calls that do not fit are omitted and counted, the oldest first.
inline constexpr std::size_t max_slow_calls_bytes = std::size_t{8} << 20;

// "slow_calls": `all`, the newest first. docs/api.md describes the parameters and the members.
[[nodiscard]] ApiResource slow_calls_document(std::vector<SlowCall> all);

}  // namespace gpusnoop::probes
