// Where CPython 3.10 to 3.14 keeps the frames of a process's threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "bpf/lib/python/layout.h"
#include "exporter/base/work_limit.h"
#include "exporter/symbols/stacks/mapped_files.h"

namespace gpusnoop::probes {

enum class PythonLineTable {
    deltas,     // of 3.10: pairs of bytes
    locations,  // of 3.11 and later: entries that also have columns
};

// Offsets in bytes: of members of PyCodeObject, and of the text of a string.
struct PythonCodeLayout {
    std::uint32_t file_name;
    std::uint32_t qualified_name;
    std::uint32_t ascii_text;    // the size of PyASCIIObject
    std::uint32_t unicode_text;  // the size of PyCompactUnicodeObject
    std::uint32_t first_line;
    std::uint32_t line_table;    // a bytes object
    std::uint32_t instructions;  // inside of the code object; 0: a frame has an index instead
    PythonLineTable lines;
    bool has_version;  // a number that no other code object of the process has
};

struct PythonInterpreter {
    python_layout frames;
    PythonCodeLayout code;
    std::uint32_t thread_handle;      // of PyThreadState: as pthread_self()
    std::uint32_t frame_instruction;  // of _PyInterpreterFrame: where it is in its code
    // Each function has a run of the interpreter's loop of its own, which C has called.
    bool has_loop_for_each;
    // Programs in the kernel can walk its frames, too.
    bool is_for_kernel;
};

// Empty: the process has none, or of another version, or it has ended. Looks at the symbols of
// programs and libraries that have "python" in their names, for a second at most.
[[nodiscard]] std::optional<PythonInterpreter> find_python(symbols::MappedFiles &files,
                                                           std::uint32_t tgid,
                                                           const WorkLimit &most = {});

// Of 3.11 and 3.12, by Py_Version (0x030b02f0), without the address of _PyRuntime. Empty: of
// another one.
[[nodiscard]] std::optional<PythonInterpreter> python_by_version(std::uint64_t version);

// Of 3.10, which does not say its version: by the name of its file.
[[nodiscard]] std::optional<PythonInterpreter> python_by_name(std::string_view file_name);

// The members of 3.13 and 3.14 move between their releases: _PyRuntime begins with where they are
// (struct _Py_DebugOffsets in cpython's Include/internal/pycore_debug_offsets.h). Empty: it is of
// neither, or its threads run at once (free-threaded), which moves the members again.
[[nodiscard]] std::optional<PythonInterpreter> python_by_offsets(std::string_view debug_offsets);
inline constexpr std::size_t python_offsets_bytes = 49 * sizeof(std::uint64_t);

}  // namespace gpusnoop::probes
