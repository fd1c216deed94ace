// Numbers that only grow and are read again and again, as those in tables in which programs of the
// host group count by process.
#pragma once

#include <chrono>
#include <cstdint>

#include "exporter/probes/frame/processes/followed_processes.h"

namespace gpusnoop::probes {

// How long the ProcessTable of such a probe keeps a process after its end. As long as the process
// is known, its entries are used, and what was counted of them before must be known, too.
inline constexpr std::chrono::seconds counts_grace{30};
static_assert(counts_grace > kept_after_end);

// What `now` is more than `before`; 0 if it is less: of two readings, either can be used first, and
// a thread may end meanwhile.
[[nodiscard]] inline std::uint64_t difference(std::uint64_t now, std::uint64_t before) {
    return now > before ? now - before : 0;
}

// Adds what a number has grown by to `counted`, and returns it.
template <typename Count>
[[nodiscard]] std::uint64_t grown(std::uint64_t now, Count &counted) {
    const std::uint64_t added = difference(now, counted);
    counted += added;
    return added;
}

}  // namespace gpusnoop::probes
