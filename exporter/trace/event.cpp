#include "exporter/trace/event.h"

#include <spdlog/fmt/fmt.h>

namespace gpusnoop::trace {

std::int64_t began_ns(std::uint64_t ended_ns, std::uint64_t duration_ns,
                      std::int64_t clock_offset_ns) {
    return static_cast<std::int64_t>(ended_ns - duration_ns) + clock_offset_ns;
}

void set_result(Event &event, std::int64_t result, std::string error) {
    // Most large numbers are addresses.
    constexpr std::int64_t large = std::int64_t{1} << 32;
    event.result = !error.empty()    ? error
                   : result >= large ? fmt::format("{:#x}", result)
                                     : std::to_string(result);
    event.results = {{"result", result}, {"error", text_or_null(std::move(error))}};
}

Value text_or_null(std::string text) {
    return text.empty() ? Value() : Value(std::move(text));
}

}  // namespace gpusnoop::trace
