// A traced call or event, ready to be written: all names are looked up, and all text is safe for a
// terminal.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "exporter/processes/process_names.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::trace {

// An address, a handle or a raw word: written in hexadecimal.
struct Word {
    std::uint64_t value = 0;
    bool operator==(const Word &) const = default;
};

using Size3 = std::array<std::uint32_t, 3>;
// Nanoseconds by name.
using Durations = std::vector<std::pair<std::string_view, std::uint64_t>>;

// By the keys of docs/trace.md. The first is null in JSON, and omitted in text.
using Value = std::variant<std::monostate, std::uint64_t, std::int64_t, Word, std::string, Size3,
                           std::vector<Word>, Durations>;
using Detail = std::pair<std::string_view, Value>;  // the key is a literal

struct StackFrame {
    std::uint64_t address = 0;  // where the call returns to
    symbols::Frame place;
};

// The names are its process's.
struct Event : processes::ProcessNames {
    std::int64_t time_ns = 0;  // since the epoch
    std::optional<std::uint64_t> duration_ns;
    std::uint32_t pid = 0;  // 0: none, or not known; the same for the next two
    std::uint32_t tid = 0;
    std::uint32_t ppid = 0;
    std::string_view kind;  // the key of `name`: a literal
    std::string name;
    std::string result = "-";       // in the text's column for results
    std::vector<Detail> results;    // in JSON, before the details
    std::vector<Detail> details;    // in both
    std::vector<StackFrame> stack;  // innermost first
};

// The start of the call, for Event::time_ns: the wall clock is `clock_offset_ns` ahead of the
// monotonic one.
[[nodiscard]] std::int64_t began_ns(std::uint64_t ended_ns, std::uint64_t duration_ns,
                                    std::int64_t clock_offset_ns);

// In text, the error's name, if it has one.
void set_result(Event &event, std::int64_t result, std::string error);

// Null instead of an empty text.
[[nodiscard]] Value text_or_null(std::string text);

}  // namespace gpusnoop::trace
