// Metadata of a file that changes whenever its bytes change.
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

// Read from the kernel's own structures, without asking the file system, which may not answer. The
// descriptor may be one that only names the file (O_PATH). Empty if the file does not exist.
[[nodiscard]] std::optional<FileState> state_of(const Fd &file);

}  // namespace gpusnoop
