// The test's own process, as one that others look into.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace gpusnoop::test {

inline std::uint32_t own_tgid() {
    return static_cast<std::uint32_t>(::getpid());
}

template <typename Pointer>
std::uint64_t address_of(Pointer pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
}

}  // namespace gpusnoop::test
