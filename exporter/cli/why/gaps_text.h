// The launch gaps in the text of `why`.
#pragma once

#include <cstdint>
#include <string>

#include "exporter/probes/host_time/process_times.h"

namespace gpusnoop::why {

// A line for the gaps after waits for the device, and one for those after waits for a stream, if
// they have half a percent of the time.
[[nodiscard]] std::string gaps_text(const probes::GapTimes &gaps, std::uint64_t wall_ns);

}  // namespace gpusnoop::why
