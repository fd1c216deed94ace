// `trace nvlink`: each call of the NVIDIA driver's helpers.
#pragma once

#include <cstdint>

#include "bpf/nvlink.h"
#include "exporter/probes/frame/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind nvlink_trace;

// `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const nvlink_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
