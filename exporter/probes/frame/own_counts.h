// Which counts of its own work a probe can have.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "bpf/lib/wire.h"

namespace gpusnoop::probes {

// A bit for each reason.
using LostReasons = std::uint32_t;

[[nodiscard]] constexpr LostReasons lost_for(std::initializer_list<lost_reason> reasons) {
    LostReasons bits = 0;
    for (const lost_reason reason : reasons) {
        bits |= 1U << reason;
    }
    return bits;
}

// The page shows these counts of a probe from its start, and any other when it is not 0.
// tests/own_counts_test.py compares them with the code that counts.
struct OwnCounts {
    bool entries = false;    // and events, and skipped runs of programs
    bool in_flight = false;  // of entries whose events come later
    bool stale = false;
    bool nested = false;
    bool unmatched = false;
    bool forgotten = false;
    bool deaths = false;  // of programs inside of its calls
    LostReasons lost = 0;
    std::span<const std::string_view> attach_failures{};  // reasons
};

// Of a probe that attaches to libraries.
inline constexpr std::array<std::string_view, 5> library_failures = {"open", "slow", "elf",
                                                                     "no_symbols", "attach"};
// Of a probe that attaches to functions of the kernel, and goes on if one fails.
inline constexpr std::array<std::string_view, 1> kernel_failures = {"attach"};

}  // namespace gpusnoop::probes
