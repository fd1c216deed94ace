// Writes traced calls and events as text for people, and as JSON Lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "exporter/processes/process_names.h"
#include "exporter/trace/event.h"

namespace gpusnoop::trace {

// Bytes that a process chose, made safe to show: valid UTF-8 of at most `max_bytes` bytes, without
// characters that control a terminal or reorder text.
[[nodiscard]] std::string printable(std::string_view bytes, std::size_t max_bytes);

// The most bytes of a name that are shown.
inline constexpr std::size_t max_text_bytes = 256;

[[nodiscard]] processes::ProcessNames printable(const processes::ProcessNames &names);

// The names of the columns; `name` is the title over the functions or events.
[[nodiscard]] std::string text_header(std::string_view name);

struct Row {
    std::int64_t time_ns;  // since the epoch
    std::uint32_t pid;     // 0: none, or not known; the same for the next two
    std::uint32_t tid;
    std::uint32_t ppid;
    std::string_view comm;
    std::string_view name;
    std::optional<std::uint64_t> duration_ns;
    std::string_view result;
    std::string_view what;  // the rest of the line
};

// What tells processes of the same name apart, for the rest of the line: " script=train.py
// slurm_job_id=4711"; empty: nothing does. Printable names.
[[nodiscard]] std::string text_of(const processes::ProcessNames &names);

// One line of columns, and one more for each frame of the stack.
[[nodiscard]] std::string text_row(const Row &row, std::span<const StackFrame> stack);

[[nodiscard]] std::string text_line(const Event &event);

// One object with the keys of docs/trace.md, in one line.
[[nodiscard]] std::string json_line(const Event &event);

}  // namespace gpusnoop::trace
