// The functions probe: calls of the configured functions, in every process.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/functions/tracing.h"

namespace gpusnoop::probes {

extern const ProbeKind functions_kind;

// For a trace: passes on the calls that `tracing` selects, instead of `config`.
std::unique_ptr<Probe> make_func_tracer(config::Config config, const ebpf::Features &features,
                                        FunctionTracing tracing);

}  // namespace gpusnoop::probes
