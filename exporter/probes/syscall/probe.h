// System calls of the targets.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/syscall/aggregator.h"

namespace gpusnoop::probes {

extern const ProbeKind syscall_kind;

// For a trace: drain() passes on each call, and counts nothing. `with_paths`: all calls that the
// configuration names open files.
struct SyscallTrace {
    OnSyscall on_call;
    bool with_paths = false;
};
std::unique_ptr<Probe> make_syscall_tracer(const config::Config &config,
                                           const TracedProcessesPtr &traced, SyscallTrace trace);

}  // namespace gpusnoop::probes
