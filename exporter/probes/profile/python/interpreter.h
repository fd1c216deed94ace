// Where CPython 3.11 to 3.13 keeps the frames of a process's threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "bpf/profile/python.h"
#include "exporter/base/work_limit.h"
#include "exporter/symbols/stacks/mapped_files.h"

namespace gpusnoop::probes {

// Offsets in bytes: of members of PyCodeObject, and of the text of a string.
struct PythonCodeLayout {
    std::uint32_t file_name;
    std::uint32_t qualified_name;
    std::uint32_t ascii_text;    // the size of PyASCIIObject
    std::uint32_t unicode_text;  // the size of PyCompactUnicodeObject
};

struct PythonInterpreter {
    python_layout frames;
    PythonCodeLayout code;
};

// Empty: the process has none, or of another version, or it has ended. Looks at the symbols of
// programs and libraries that have "python" in their names, for a second at most.
[[nodiscard]] std::optional<PythonInterpreter> find_python(symbols::MappedFiles &files,
                                                           std::uint32_t tgid,
                                                           const WorkLimit &most = {});

// Of 3.11 and 3.12, by Py_Version (0x030b02f0), without the address of _PyRuntime. Empty: of
// another one.
[[nodiscard]] std::optional<PythonInterpreter> python_by_version(std::uint64_t version);

// The members of 3.13 move between its releases: _PyRuntime begins with where they are (struct
// _Py_DebugOffsets in cpython's Include/internal/pycore_runtime.h). Empty: it is not of 3.13, or
// its threads run at once (free-threaded), which moves the members again.
[[nodiscard]] std::optional<PythonInterpreter> python_by_offsets(std::string_view debug_offsets);
inline constexpr std::size_t python_offsets_bytes = 38 * sizeof(std::uint64_t);

}  // namespace gpusnoop::probes
