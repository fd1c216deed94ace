// `trace tcp`: each change of state of TCP connections of followed processes.
#pragma once

#include <cstdint>

#include "bpf/host_net/host_net.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind tcp_trace;

// `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const net_state_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
