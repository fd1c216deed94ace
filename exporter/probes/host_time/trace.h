// `trace gap`: each launch gap that is explained.
#pragma once

#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/host_time/gaps/gaps.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind gap_trace;

[[nodiscard]] Event event_of(const probes::LongGap &gap, const probes::ProcessIdentity &process);

}  // namespace gpusnoop::trace
