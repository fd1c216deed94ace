#include "exporter/probes/functions/trace/lines.h"

#include <spdlog/fmt/fmt.h>

#include <optional>

#include "exporter/probes/functions/report/call_json.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

std::string text_line(const probes::SlowCall &call, std::span<const StackFrame> stack) {
    const auto shown = [](const std::string &text) { return printable(text, max_text_bytes); };
    std::string result = call.result ? fmt::format("{:#x}", *call.result) : "-";
    if (call.error) {
        result = shown(*call.error);
    }
    std::string what =
        (call.is_entry ? "begins library=" : "library=") + shown(call.function->library);
    for (const auto &[position, value] : call.arguments) {
        what += fmt::format(" {}={:#x}", position, value);
    }
    what += text_of(printable(call));
    const auto duration = call.has_ended ? std::optional(call.duration_ns) : std::nullopt;
    return text_row({call.ended.count(), call.pid, call.tid, call.ppid, shown(call.comm),
                     shown(call.function->name), duration, result, what},
                    stack);
}

std::string json_line(const probes::SlowCall &call, bool with_entries) {
    // Only strings can contain control characters for a terminal, and there any character is
    // allowed.
    const std::string line = probes::to_json(call, call.is_entry  ? "entry"
                                                   : with_entries ? "call"
                                                                  : "");
    return printable(line, line.size()) + '\n';
}

}  // namespace gpusnoop::trace
