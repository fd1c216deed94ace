// The functions probe: calls of the functions that the configuration names, in every process.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/functions/tracing.h"

namespace gpusnoop::probes {

extern const ProbeKind functions_kind;

// For a trace: it passes on calls as `tracing` says, not as `config` says.
std::unique_ptr<Probe> make_func_tracer(config::Config config, const ebpf::Features &features,
                                        FunctionTracing tracing);

}  // namespace gpusnoop::probes
