// Finds functions of the kernel and its modules.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// The symbols among `names` that exist now, each with its address. `path` is /proc/kallsyms, which
// shows addresses only to privileged users (0 to others).
[[nodiscard]] Result<std::map<std::string, std::uint64_t>> find_kernel_symbols(
    std::span<const std::string_view> names, const std::string &path = "/proc/kallsyms");

// The loaded modules, as one text that changes when a module is loaded or unloaded. Cheap, unlike
// reading all symbols.
[[nodiscard]] Result<std::string> loaded_modules(const std::string &path = "/proc/modules");

}  // namespace gpusnoop::ebpf
