// The numbers in the text of `why`.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <string>

namespace gpusnoop::why {

// Smaller shares are left out of texts.
constexpr double least_shown_percent = 0.5;

// With as many decimals as all of them need, of so much time.
inline std::string seconds_text(std::uint64_t ns, std::uint64_t wall_ns) {
    constexpr std::uint64_t long_ns = 5'000'000'000;
    return fmt::format("{:.{}f} s", static_cast<double>(ns) / 1e9, wall_ns >= long_ns ? 1 : 2);
}

inline double percent(std::uint64_t ns, std::uint64_t wall_ns) {
    return 100 * static_cast<double>(ns) / static_cast<double>(wall_ns);
}

}  // namespace gpusnoop::why
