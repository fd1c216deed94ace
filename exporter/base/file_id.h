// Identifies a file as the kernel does.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace gpusnoop {

struct FileId {
    std::uint64_t inode = 0;
    std::uint32_t device = 0;  // as in the kernel: MAJOR << 20 | MINOR
    std::uint32_t generation = 0;
    // Address of the kernel's inode while the file is in use; 0 if not known. Never shown.
    std::uint64_t address = 0;

    auto operator<=>(const FileId &) const = default;
};

}  // namespace gpusnoop
