// System calls of the targets.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/syscall/aggregator.h"

namespace gpusnoop::probes {

extern const ProbeKind syscall_kind;

// For a trace: drain() passes on each call, and counts nothing.
std::unique_ptr<Probe> make_syscall_tracer(const config::Config &config,
                                           const TargetProcessesPtr &targets, OnSyscall on_call);

}  // namespace gpusnoop::probes
