// Files that a person names in settings: configurations and certificates.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "exporter/base/result.h"

namespace gpusnoop {

// How long such files may take. A FIFO that nobody writes to has no end.
inline constexpr std::chrono::seconds reading_patience{2};

using ReadingDeadline = std::chrono::steady_clock::time_point;

[[nodiscard]] inline ReadingDeadline reading_deadline() {
    return std::chrono::steady_clock::now() + reading_patience;
}

// All of the file, which has `most` bytes at most and ends before `until`. The file may be a pipe,
// such as /dev/stdin and bash's <(...), but not one into which nothing was written. The error's
// message does not name the file.
[[nodiscard]] Result<std::string> read_text(const std::string &path, std::size_t most,
                                            ReadingDeadline until = reading_deadline());

}  // namespace gpusnoop
