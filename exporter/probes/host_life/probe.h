// Starts and ends of followed processes, and their signals.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/host_life/aggregator.h"

namespace gpusnoop::probes {

extern const ProbeKind host_life_kind;

// For a trace: drain() passes on each end or each signal, and counts nothing.
std::unique_ptr<Probe> make_life_tracer(const config::Config &config,
                                        const TracedProcessesPtr &traced, OnLife trace);

}  // namespace gpusnoop::probes
