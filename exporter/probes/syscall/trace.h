// `trace syscall`: each system call.
#pragma once

#include <cstdint>
#include <string_view>

#include "bpf/syscall/syscall.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind syscall_trace;

// `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const syscall_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns);

// `trace open`: each system call that opens a file, with its path.
extern const Kind open_trace;

// `path` is as the program wrote it, cut at SYSCALL_PATH_BYTES; `clock_offset_ns` as in
// began_ns().
[[nodiscard]] Event open_event_of(const syscall_record &record, std::string_view path,
                                  const probes::ProcessIdentity &process,
                                  std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
