// System calls of the processes to trace.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/target_processes.h"
#include "exporter/probes/syscall/aggregator.h"

namespace gpusnoop::probes {

std::unique_ptr<Probe> make_syscall(const config::Config &config, const ebpf::Features &features,
                                    const TargetProcessesPtr &targets);

// For a trace: drain() hands over each call, and counts nothing.
std::unique_ptr<Probe> make_syscall_tracer(const config::Config &config,
                                           const TargetProcessesPtr &targets, OnSyscall on_call);

}  // namespace gpusnoop::probes
