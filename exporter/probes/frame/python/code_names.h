// Names of Python's functions, from the memory of their process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/probes/frame/python/frames.h"
#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/symbols/stacks/mapped_files.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

// Where a call is in Python's source. Untrusted texts.
struct PythonPlace {
    std::string path;      // of the file, as the program knows it; empty: nothing is known
    std::string function;  // with its class
    std::optional<std::uint32_t> line;

    // "train.py:Trainer.step:42", in the module "train.py"; empty if nothing is known. The text is
    // safe for a terminal.
    [[nodiscard]] symbols::Frame frame() const;
};

// The place of a call, of which `identity` is python_identity() of its code object at that time:
// another code object may be there by now, and then nothing is known.
[[nodiscard]] PythonPlace python_place(symbols::MappedFiles &files, std::uint32_t tgid,
                                       const PythonCodeLayout &layout, const PythonCall &call,
                                       std::uint32_t identity);

// Of a code object: "train.py:Trainer.step", in the module "train.py"; empty if it cannot be read.
// The text is safe for a terminal.
[[nodiscard]] symbols::Frame python_function(symbols::MappedFiles &files, std::uint32_t tgid,
                                             const PythonCodeLayout &layout, std::uint64_t code);

// With the line of an instruction. `instruction` is its place among those of the code object, as in
// python_line(); without a line if that is not known.
[[nodiscard]] PythonPlace python_place(symbols::MappedFiles &files, std::uint32_t tgid,
                                       const PythonCodeLayout &layout, std::uint64_t code,
                                       std::int64_t instruction);

// Where a code object has the words of python_identity(), which are members that do not change.
[[nodiscard]] constexpr std::uint32_t python_identity_offset(const PythonCodeLayout &layout) {
    return layout.first_line & ~7U;
}
// Which of these words is its name, whose hash is taken; 0: the version is enough.
[[nodiscard]] constexpr std::uint32_t python_identity_name(const PythonCodeLayout &layout) {
    constexpr std::uint32_t word = sizeof(std::uint64_t);
    return layout.has_version || layout.instructions == 0
               ? 0
               : (layout.qualified_name - word - python_identity_offset(layout)) / word;
}

// A string object's text as UTF-8, from its first bytes; cut if it is longer than these. Empty: it
// is none. Untrusted.
[[nodiscard]] std::string python_text(std::string_view object, const PythonCodeLayout &layout);

// The line of an instruction, by its place among those of its code object, in units of 2 bytes; -1
// and less: before the first one. `table` is the code object's, which the process may have changed
// to anything; `first_line` is where its function begins. Empty: it has none.
[[nodiscard]] std::optional<std::uint32_t> python_line(PythonLineTable kind, std::string_view table,
                                                       std::int32_t first_line, std::int64_t unit);

}  // namespace gpusnoop::probes
