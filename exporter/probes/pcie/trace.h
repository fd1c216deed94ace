// `trace pcie`: each access to the configuration space of the devices.
#pragma once

#include <cstdint>
#include <string>

#include "bpf/pcie.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind pcie_trace;

// `register_name` is "" if it is not known; `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const pcie_record &record, const probes::ProcessIdentity &process,
                             std::string register_name, std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
