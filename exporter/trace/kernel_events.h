// Records of the kernel's side -> events.
#pragma once

#include <cstdint>
#include <string>

#include "bpf/fence.h"
#include "bpf/nvlink.h"
#include "bpf/pcie.h"
#include "bpf/syscall.h"
#include "exporter/probes/frame/process_identity.h"
#include "exporter/trace/event.h"

namespace gpusnoop::trace {

// `clock_offset_ns` is what the wall clock is ahead of the monotonic one.
// `register_name` is "" if it is not known.
[[nodiscard]] Event event_of(const pcie_record &record, std::string register_name,
                             std::int64_t clock_offset_ns);
[[nodiscard]] Event event_of(const nvlink_record &record, std::int64_t clock_offset_ns);
[[nodiscard]] Event event_of(const fence_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns);
[[nodiscard]] Event event_of(const syscall_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
