// DMA fences of the processes to trace.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/fence/aggregator.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/target_processes.h"

namespace gpusnoop::probes {

std::unique_ptr<Probe> make_fence(const config::Config &config, const ebpf::Features &features,
                                  const TargetProcessesPtr &targets);

// For a trace: drain() hands over each event, and counts nothing.
std::unique_ptr<Probe> make_fence_tracer(const config::Config &config,
                                         const TargetProcessesPtr &targets, OnFence on_event);

}  // namespace gpusnoop::probes
