// `trace exit` and `trace signal`: each end of a followed process, and each signal to one.
#pragma once

#include <cstdint>
#include <string>

#include "bpf/host_life.h"
#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind exit_trace;
extern const Kind signal_trace;

// `clock_offset_ns` as in began_ns(). `site`: where in Python the last call was made.
[[nodiscard]] Event event_of(const life_exit_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns,
                             probes::CudaFunctionName function_name = nullptr,
                             const std::string &report = {}, const std::string &site = {});
[[nodiscard]] Event event_of(const life_signal_record &record,
                             const probes::ProcessIdentity &process, std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
