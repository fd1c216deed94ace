// The API of the last slow calls, for people and programs that look for the cause.
#pragma once

#include <string_view>
#include <vector>

#include "exporter/probes/frame/api/api_page.h"
#include "exporter/probes/functions/report/slow_calls.h"

namespace gpusnoop::probes {

inline constexpr std::string_view slow_calls_page_name = "slow_calls";

// "slow_calls": `all`, the newest first. docs/api.md describes the parameters and the members.
[[nodiscard]] ApiPage slow_calls_page(std::vector<SlowCall> all);

}  // namespace gpusnoop::probes
