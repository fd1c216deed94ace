// Readings of tables in which programs of the host group count by process. The numbers only grow.
#pragma once

#include <linux/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "exporter/probes/frame/followed_processes.h"

namespace gpusnoop::probes {

// How long the ProcessTable of such a probe keeps a process after its end. As long as the process
// is known, its entries are used, and what was counted of them before must be known, too.
inline constexpr std::chrono::seconds counts_grace{30};
static_assert(counts_grace > kept_after_end);

// What came since, and the later of both: of two readings of an entry, either can be used first.
inline std::uint64_t advance(__u64 &counted, __u64 now) {
    const __u64 grown = now - std::min(now, counted);
    counted += grown;
    return grown;
}

}  // namespace gpusnoop::probes
