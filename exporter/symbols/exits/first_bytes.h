// The beginnings of functions. For the sources of this folder only.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "exporter/symbols/elf/elf_file.h"

namespace gpusnoop::symbols {

// Enough for ENDBR64 and a few moves, of at most 15 bytes each.
inline constexpr std::size_t max_prologue_bytes = 48;

// The first bytes of each function of the file that `fd` is, max_prologue_bytes at most, as far as
// the function goes; empty where they cannot be read.
[[nodiscard]] std::vector<std::vector<std::byte>> first_bytes(
    int fd, std::span<const FoundFunction> functions);

}  // namespace gpusnoop::symbols
