// `trace kvm`: each return of a virtual CPU to its process, and each end of a halt.
#pragma once

#include <cstdint>

#include "bpf/host_kvm.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind kvm_trace;

// `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const kvm_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
