// The USDT probes of a file (DTRACE_PROBE and STAP_PROBE of <sys/sdt.h>): places in its code that
// its authors have named.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpusnoop::symbols {

struct UsdtName {
    std::string provider;
    std::string probe;
    auto operator<=>(const UsdtName &) const = default;
};

// One of the places of a probe: a compiler may make several of one in the source.
struct UsdtPlace {
    std::uint64_t file_offset = 0;  // of an instruction that does nothing
    // The file offset of the 16-bit counter that says to the program how many listen to the probe;
    // 0: it has none.
    std::uint64_t semaphore = 0;
    auto operator<=>(const UsdtPlace &) const = default;
};

struct UsdtProbe {
    std::vector<UsdtPlace> places{};  // by file offset, each once
    // Places that are no instruction that does nothing: the file is wrong, and a probe there could
    // break the program.
    std::size_t unusable = 0;
    // Places whose counter is not an aligned one of two bytes in the writable section .probes: to
    // count there would change other data of the program.
    std::size_t wrong_semaphores = 0;
};

}  // namespace gpusnoop::symbols
