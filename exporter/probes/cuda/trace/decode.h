// Records of traced calls -> events.
#pragma once

#include <cstdint>
#include <string>

#include "bpf/cuda/cuda.h"
#include "exporter/trace/event.h"

namespace gpusnoop::trace {

// Decodes a record without looking up names. `kernel` is the name of the record's kernel, if it has
// one, which the caller has looked up ("" if it is not known). `clock_offset_ns` is how far the
// wall clock is ahead of the monotonic one. `parameters` limits the number of the kernel's
// arguments.
[[nodiscard]] Event decode(const cuda_trace_record &record, std::int64_t clock_offset_ns,
                           std::string kernel, std::optional<std::size_t> parameters);

}  // namespace gpusnoop::trace
