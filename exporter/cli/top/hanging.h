// Which calls hang, by an exporter's page /api/v1/in_flight, which is not trusted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/cli/top/programs.h"

namespace gpusnoop::top {

// The path and query of that page.
inline constexpr const char *hanging_target = "/api/v1/in_flight?limit=256";

struct CallInFlight {
    std::uint32_t pid = 0;
    ProgramKey program;
    HangingCall call;
};

// The oldest first. Texts are unchanged.
[[nodiscard]] Result<std::vector<CallInFlight>> parse_in_flight(std::string_view json);
// Of each program, the oldest call.
[[nodiscard]] Result<std::map<ProgramKey, HangingCall>> parse_hanging(std::string_view json);

}  // namespace gpusnoop::top
