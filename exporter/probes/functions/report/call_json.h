// Calls of named functions as JSON, for people and for receivers of events.
#pragma once

#include <chrono>
#include <string>

#include "exporter/probes/functions/report/call.h"
#include "exporter/probes/functions/report/slow_calls.h"

namespace gpusnoop::probes {

// The events at a call's entry and at its end.
[[nodiscard]] std::string call_id(const SlowCall &call);

// One object on one line. `event` is the value of its first member; empty: it has none. docs/api.md
// describes the members.
[[nodiscard]] std::string to_json(const SlowCall &call, const std::string &event = "");

// The same for any call, with fewer members: {"event":"call",...}, or {"event":"entry",...} when it
// has just begun. `ended` is on CLOCK_REALTIME.
[[nodiscard]] std::string to_json(const FunctionCall &call, std::chrono::nanoseconds ended);

}  // namespace gpusnoop::probes
