// Which programs the text of `why` shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exporter/cli/why/report.h"

namespace gpusnoop::why {

inline constexpr std::size_t most_shown_programs = 10;

// Orders findings: hangs, then the most time in what limits the process, then those that the GPU
// limits, then idle ones.
[[nodiscard]] bool is_worse(const Finding &one, const Finding &other);

// Processes with the same names but for the user; the worst first, at least one.
struct Program {
    std::vector<const Finding *> processes;
    std::uint64_t wall_ns = 0;  // of all
};

struct Programs {
    std::vector<Program> shown;   // the worst first
    std::size_t over_limit = 0;   // more of them
    std::size_t short_lived = 0;  // that had less than least_ns
    std::uint64_t least_ns = 0;
};

// Short-lived programs count only if they were asked for. The report must outlive it.
[[nodiscard]] Programs programs_of(const Report &report);

}  // namespace gpusnoop::why
