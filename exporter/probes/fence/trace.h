// `trace fence`: each event of DMA fences.
#pragma once

#include <cstdint>

#include "bpf/fence/fence.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind fence_trace;

// `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const fence_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
