// Names of Python's functions, from the memory of their process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/symbols/stacks/mapped_files.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

// Of a code object: "train.py:Trainer.step", in the module "train.py"; empty if it cannot be read.
// The text is safe for a terminal.
[[nodiscard]] symbols::Frame python_function(symbols::MappedFiles &files, std::uint32_t tgid,
                                             const PythonCodeLayout &layout, std::uint64_t code);

// The same with the line of an instruction, "train.py:Trainer.step:42". `instruction` is its place
// among those of the code object, as in python_line(); without a line if that is not known.
[[nodiscard]] symbols::Frame python_place(symbols::MappedFiles &files, std::uint32_t tgid,
                                          const PythonCodeLayout &layout, std::uint64_t code,
                                          std::int64_t instruction);

// A string object's text as UTF-8, from its first bytes; cut if it is longer than these. Empty: it
// is none. Untrusted.
[[nodiscard]] std::string python_text(std::string_view object, const PythonCodeLayout &layout);

}  // namespace gpusnoop::probes
