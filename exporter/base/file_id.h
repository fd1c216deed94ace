// Identifies a file as the kernel does, and tells whether its bytes may have changed.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>

#include "exporter/base/fd.h"

namespace gpusnoop {

struct FileId {
    std::uint64_t inode = 0;
    std::uint32_t device = 0;  // as in the kernel: MAJOR << 20 | MINOR
    std::uint32_t generation = 0;
    // Address of the kernel's inode while the file is in use; 0 if not known. Never shown.
    std::uint64_t address = 0;

    auto operator<=>(const FileId &) const = default;
};

struct FileState {
    std::uint64_t bytes = 0;
    std::chrono::nanoseconds modified{};  // since the epoch

    bool operator==(const FileState &) const = default;
};

// Read from the kernel's own structures, without asking the file system, which may not answer. The
// descriptor may be one that only names the file (O_PATH). Empty if the file does not exist.
[[nodiscard]] std::optional<FileState> state_of(const Fd &file);

}  // namespace gpusnoop
