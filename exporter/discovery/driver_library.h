// Where the host's CUDA driver library lies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::discovery {

// The paths that the dynamic linker's cache has for the library, of the ABI that `flags` says; none
// if these bytes are no such cache. The cache is not trusted.
[[nodiscard]] std::vector<std::string> paths_in_linker_cache(std::string_view cache,
                                                             std::string_view library,
                                                             std::uint32_t flags);

// Where libcuda.so.1 may lie below `root`: as the dynamic linker's cache there says, and the usual
// places. Seen from `root`; not all of them exist.
[[nodiscard]] std::vector<std::string> driver_library_paths(const std::string &root);

}  // namespace gpusnoop::discovery
