// `trace block`: each request of followed processes to a block device.
#pragma once

#include <cstdint>
#include <string>

#include "bpf/host_block.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind block_trace;

// `device` is its name, and `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const block_record &record, const std::string &device,
                             const probes::ProcessIdentity &process, std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
