// DMA fences of the processes to trace.
#pragma once

#include <functional>
#include <memory>

#include "bpf/fence.h"
#include "exporter/config/config.h"
#include "exporter/kernel/features.h"
#include "exporter/probes/probe.h"
#include "exporter/probes/process_identity.h"
#include "exporter/probes/targets.h"

namespace gpusnoop::probes {

std::unique_ptr<Probe> make_fence(const config::Config &config, const kernel::Features &features,
                                  const TargetsPtr &targets);

// For a trace: drain() tells of each event, and nothing is counted. The process is "unknown" for a
// fence that nobody is known to have made.
using OnFence = std::function<void(const fence_record &, const ProcessIdentity &)>;
std::unique_ptr<Probe> make_fence_tracer(const config::Config &config, const TargetsPtr &targets,
                                         OnFence on_event);

}  // namespace gpusnoop::probes
