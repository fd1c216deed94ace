// Traced calls of named functions as text: for people, and as JSON Lines.
#pragma once

#include <span>
#include <string>

#include "exporter/probes/functions/report/slow_calls.h"
#include "exporter/trace/event.h"

namespace gpusnoop::trace {

// As text_row(), safe for a terminal; the time is the call's end.
[[nodiscard]] std::string text_line(const probes::SlowCall &call,
                                    std::span<const StackFrame> stack);

// As probes::to_json(), safe for a terminal, in one line. With entries, each line has its kind.
[[nodiscard]] std::string json_line(const probes::SlowCall &call, bool with_entries = false);

}  // namespace gpusnoop::trace
