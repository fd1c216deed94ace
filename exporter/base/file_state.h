// What a file's bytes cannot change without.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "exporter/base/fd.h"

namespace gpusnoop {

struct FileState {
    std::uint64_t bytes = 0;
    std::chrono::nanoseconds modified{};  // since the epoch

    bool operator==(const FileState &) const = default;
};

// As the kernel knows it: its file system, which may not answer, is not asked. The descriptor may
// be one that only names the file (O_PATH). Nothing where there is no such file.
[[nodiscard]] std::optional<FileState> state_of(const Fd &file);

}  // namespace gpusnoop
