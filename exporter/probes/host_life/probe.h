// Starts and ends of followed processes, and their signals.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/frame/reports/report_facts.h"
#include "exporter/probes/host_life/aggregator.h"

namespace gpusnoop::probes {

extern const ProbeKind host_life_kind;

// For a trace: drain() passes on each end or each signal, and counts nothing. `report_facts`: where
// `cuda` hands over what reports are made of, if the trace wants those.
std::unique_ptr<Probe> make_life_tracer(const config::Config &config,
                                        const TracedProcessesPtr &traced, OnLife trace,
                                        ReportFactsPtr report_facts);

}  // namespace gpusnoop::probes
