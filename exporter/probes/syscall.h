// System calls of the processes to trace.
#pragma once

#include <functional>
#include <memory>

#include "bpf/syscall.h"
#include "exporter/config/config.h"
#include "exporter/kernel/features.h"
#include "exporter/probes/probe.h"
#include "exporter/probes/process_identity.h"
#include "exporter/probes/targets.h"

namespace gpusnoop::probes {

std::unique_ptr<Probe> make_syscall(const config::Config &config, const kernel::Features &features,
                                    const TargetsPtr &targets);

// For a trace: drain() tells of each call, and nothing is counted.
using OnSyscall = std::function<void(const syscall_record &, const ProcessIdentity &)>;
std::unique_ptr<Probe> make_syscall_tracer(const config::Config &config, const TargetsPtr &targets,
                                           OnSyscall on_call);

}  // namespace gpusnoop::probes
