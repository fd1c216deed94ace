// `trace syscall`: each system call.
#pragma once

#include <cstdint>

#include "bpf/syscall/syscall.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind syscall_trace;

// `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const syscall_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
