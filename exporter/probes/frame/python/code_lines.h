// Lines of Python's source.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "exporter/probes/frame/python/interpreter.h"

namespace gpusnoop::probes {

// The line of an instruction, by its place among those of its code object, in units of 2 bytes; -1
// and less: before the first one. `table` is the code object's, which the process may have changed
// to anything; `first_line` is where its function begins. Empty: it has none.
[[nodiscard]] std::optional<std::uint32_t> python_line(PythonLineTable kind, std::string_view table,
                                                       std::int32_t first_line, std::int64_t unit);

}  // namespace gpusnoop::probes
