// What the kernel and its modules have for functions.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// Those of `names` that there are now, each with its address. `path` is /proc/kallsyms, which shows
// the addresses to the privileged only (0 to others).
[[nodiscard]] Result<std::map<std::string, std::uint64_t>> find_kernel_symbols(
    std::span<const std::string_view> names, const std::string &path = "/proc/kallsyms");

// The modules that are loaded, in one text that differs whenever one comes or goes. Cheap, other
// than reading all symbols.
[[nodiscard]] Result<std::string> loaded_modules(const std::string &path = "/proc/modules");

}  // namespace gpusnoop::ebpf
