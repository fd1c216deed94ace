// Finds functions of the kernel and its modules.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// The symbols among `names` that exist now, each with its address. `path` is /proc/kallsyms, which
// shows addresses only to privileged users (0 to others).
[[nodiscard]] Result<std::map<std::string, std::uint64_t>> find_kernel_symbols(
    std::span<const std::string_view> names, const std::string &path = "/proc/kallsyms");

// All functions of the kernel and its modules, by address.
class KernelFunctions {
public:
    // Without the privilege to see addresses, there are none.
    [[nodiscard]] static Result<KernelFunctions> read(const std::string &path = "/proc/kallsyms");

    // The function with this address in it; empty: there is none.
    [[nodiscard]] std::string_view at(std::uint64_t address) const;

private:
    std::vector<std::pair<std::uint64_t, std::string>> functions_;  // by address
};

// The loaded modules, as one text that changes when a module is loaded or unloaded. Cheap, unlike
// reading all symbols.
[[nodiscard]] Result<std::string> loaded_modules(const std::string &path = "/proc/modules");

}  // namespace gpusnoop::ebpf
