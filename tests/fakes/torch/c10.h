// The functions of libc10 that PyTorch's allocators report to, with the names that they have in
// one version of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace c10 {

enum class DeviceType : std::int8_t { cpu, cuda };

struct Device {
    DeviceType type;
    std::int8_t index;
};

#if defined(STANDIN_TORCH_2)
using Sum = std::size_t;
#else
using Sum = std::int64_t;
#endif

#if defined(STANDIN_TORCH_1_8)
[[gnu::visibility("default")]] void reportMemoryUsageToProfiler(void *address, std::int64_t bytes,
                                                                Device device);
#else
[[gnu::visibility("default")]] void reportMemoryUsageToProfiler(void *address, std::int64_t bytes,
                                                                Sum allocated, Sum reserved,
                                                                Device device);
[[gnu::visibility("default")]] void reportOutOfMemoryToProfiler(std::int64_t bytes, Sum allocated,
                                                                Sum reserved, Device device);
#endif

}  // namespace c10

namespace standin {

// What was reported of one device since the process began.
struct Reported {
    std::uint64_t allocations = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t frees = 0;
    std::uint64_t freed_bytes = 0;
    std::uint64_t out_of_memory = 0;
    // As the last call said.
    std::uint64_t allocated = 0;
    std::uint64_t reserved = 0;
};

// By type and index.
using Reports = std::map<std::pair<int, int>, Reported>;
[[gnu::visibility("default")]] Reports reports();

}  // namespace standin
