// DMA fences of the targets.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/probes/fence/aggregator.h"
#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

extern const ProbeKind fence_kind;

// For a trace: drain() passes on each event, and counts nothing.
std::unique_ptr<Probe> make_fence_tracer(const config::Config &config,
                                         const TracedProcessesPtr &traced, OnFence on_event);

}  // namespace gpusnoop::probes
