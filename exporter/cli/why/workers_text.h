// What `why` says of the workers of a process.
#pragma once

#include <cstdint>
#include <string>

#include "exporter/probes/host_time/process_times.h"

namespace gpusnoop::why {

// A line, or nothing: it has none, or they did nothing.
[[nodiscard]] std::string workers_text(const probes::WorkerTimes &workers,
                                       std::uint64_t elapsed_ns);

}  // namespace gpusnoop::why
