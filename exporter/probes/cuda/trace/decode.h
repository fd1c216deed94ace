// Records of traced calls -> events.
#pragma once

#include <cstdint>
#include <string>

#include "bpf/cuda/cuda.h"
#include "exporter/trace/event.h"

namespace gpusnoop::trace {

// What the record alone says: all but names, of which `kernel` is the one that the caller looked
// up, if the record has a kernel ("" if it is not known). `clock_offset_ns` is what the wall clock
// is ahead of the monotonic one. `parameters` cuts the kernel's arguments to as many.
[[nodiscard]] Event decode(const cuda_trace_record &record, std::int64_t clock_offset_ns,
                           std::string kernel, std::optional<std::size_t> parameters);

}  // namespace gpusnoop::trace
