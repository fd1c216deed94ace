// The kernel's types, and its functions and modules.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop::ebpf {

// libbpf reads and indexes all types of the kernel, some 5 MB, for each object that it loads, which
// took a third of the exporter's start. While one of these lives, it does so once. For any thread.
class SharedKernelTypes {
public:
    SharedKernelTypes();
    ~SharedKernelTypes();
    SharedKernelTypes(const SharedKernelTypes &) = delete;
    SharedKernelTypes &operator=(const SharedKernelTypes &) = delete;
};

// The symbols among `names` that exist now, each with its address. `path` is /proc/kallsyms, which
// shows addresses only to privileged users (0 to others).
[[nodiscard]] Result<std::map<std::string, std::uint64_t>> find_kernel_symbols(
    std::span<const std::string_view> names, const std::string &path = "/proc/kallsyms");

// The loaded modules, as one text that changes when a module is loaded or unloaded. Cheap, unlike
// reading all symbols.
[[nodiscard]] Result<std::string> loaded_modules(const std::string &path = "/proc/modules");

}  // namespace gpusnoop::ebpf
