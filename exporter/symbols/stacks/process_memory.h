// Small reads from the memory of another process. The process may end, or change its memory, at any
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "exporter/base/result.h"

namespace gpusnoop::symbols {

// Up to `size` bytes from `address`. Waits for the process if it handles its own page faults.
using ReadMemory =
    std::function<Result<std::string>(std::uint32_t tgid, std::uint64_t address, std::size_t size)>;
[[nodiscard]] Result<std::string> read_memory_at_once(std::uint32_t tgid, std::uint64_t address,
                                                      std::size_t size);

// 8 bytes at `address`; empty if they cannot be read.
[[nodiscard]] std::optional<std::uint64_t> read_word(std::uint32_t tgid, std::uint64_t address,
                                                     const ReadMemory &read = read_memory_at_once);

// The bytes at `address` up to the next NUL, or `max_bytes` of them if it is not among these; empty
// if they cannot be read. Reads page by page: the page after the NUL may not be mapped.
[[nodiscard]] std::optional<std::string> read_string(std::uint32_t tgid, std::uint64_t address,
                                                     std::size_t max_bytes,
                                                     const ReadMemory &read = read_memory_at_once);

// Where the code of a process's executable begins (mm->start_code); empty if the process has ended
// or may not be read.
[[nodiscard]] std::optional<std::uint64_t> code_start_of(std::uint32_t tgid);

}  // namespace gpusnoop::symbols
