// Which call of each GPU program hangs, by an exporter's page /api/v1/in_flight, which is not
// trusted.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "exporter/base/result.h"
#include "exporter/cli/top/programs.h"

namespace gpusnoop::top {

// The path and query of that page.
inline constexpr const char *hanging_target = "/api/v1/in_flight?limit=256";

// Of each program, the oldest call. Texts are unchanged.
[[nodiscard]] Result<std::map<ProgramKey, HangingCall>> parse_hanging(std::string_view json);

}  // namespace gpusnoop::top
