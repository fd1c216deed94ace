// One traced call, ready to be written: every name is found, and text is safe for a terminal.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::trace {

// An address, a handle or a raw word: written in hexadecimal.
struct Word {
    std::uint64_t value = 0;
    bool operator==(const Word &) const = default;
};

using Size3 = std::array<std::uint32_t, 3>;

// What a call did, by the keys of docs/trace.md.
using Value = std::variant<std::monostate, std::uint64_t, std::int64_t, Word, std::string, Size3,
                           std::vector<Word>>;
using Detail = std::pair<std::string_view, Value>;  // the key is a literal

struct StackFrame {
    std::uint64_t address = 0;  // where the call returns to
    symbols::Frame place;
};

struct Call {
    std::int64_t began_ns = 0;  // since the epoch
    std::uint64_t duration_ns = 0;
    std::uint32_t pid = 0;
    std::uint32_t tid = 0;
    std::uint32_t ppid = 0;  // when the process made its first traced call; 0: not known
    std::string comm;        // of the process
    std::string container;   // id; empty on the host
    std::string_view function;
    bool is_driver = false;        // a function of the driver API
    bool from_executable = false;  // of a runtime that is linked into the executable
    std::int32_t result = 0;       // cudaError_t or CUresult
    std::optional<std::int32_t> device;
    std::string_view operation;
    std::vector<Detail> details;
    std::vector<StackFrame> stack;  // innermost first
};

}  // namespace gpusnoop::trace
