// Reads short files of the kernel, such as those below /proc, and files that a person names.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "exporter/base/result.h"

namespace gpusnoop {

// The first `most` bytes of the file, or all of it. The error's code is the errno: if a process
// ends after its file was opened, reading fails (ESRCH). Not a std::ifstream, whose buffer throws
// then.
[[nodiscard]] Result<std::string> read_start(const std::string &path, std::size_t most = 65'536);

// The longest time to read such a file. A FIFO without a writer has no end.
inline constexpr std::chrono::seconds reading_patience{2};

using ReadingDeadline = std::chrono::steady_clock::time_point;

[[nodiscard]] inline ReadingDeadline reading_deadline() {
    return std::chrono::steady_clock::now() + reading_patience;
}

// The whole file, which must have `most` bytes at most and end before `until`. The file may be a
// pipe, such as /dev/stdin and bash's <(...), but not an empty one. The error's message does not
// name the file.
[[nodiscard]] Result<std::string> read_text(const std::string &path, std::size_t most,
                                            ReadingDeadline until = reading_deadline());

}  // namespace gpusnoop
