// System calls of the processes to trace.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/kernel/features.h"
#include "exporter/probes/probe.h"
#include "exporter/probes/targets.h"

namespace gpusnoop::probes {

std::unique_ptr<Probe> make_syscall(const config::Config &config, const kernel::Features &features,
                                    const TargetsPtr &targets);

}  // namespace gpusnoop::probes
