// Traced calls as text: for people, and as JSON Lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "exporter/trace/call.h"

namespace gpusnoop::trace {

// Bytes that a process chose, safe to show: valid UTF-8 of at most `max_bytes` bytes, in which
// nothing is left that a terminal obeys or that reorders text.
[[nodiscard]] std::string printable(std::string_view bytes, std::size_t max_bytes);

// The names of text_line()'s columns.
[[nodiscard]] std::string text_header();

// One line of columns, and one more for each frame of the stack.
[[nodiscard]] std::string text_line(const Call &call);

// One object with the keys of docs/trace.md, in one line.
[[nodiscard]] std::string json_line(const Call &call);

}  // namespace gpusnoop::trace
