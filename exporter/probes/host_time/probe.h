// The probe `host_time`: where the time of the threads goes that launch work on a GPU.
#pragma once

#include <functional>
#include <memory>

#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/processes/traced_processes.h"
#include "exporter/probes/host_time/gaps/gaps.h"

namespace gpusnoop::probes {

extern const ProbeKind host_time_kind;

using OnGap = std::function<void(const LongGap &, const ProcessIdentity &)>;

// For a trace: drain() passes on each gap, and keeps none. `stacks`: with LongGap::stack.
struct GapTracing {
    bool stacks = false;
    OnGap on_gap;
};
std::unique_ptr<Probe> make_gap_tracer(const config::Config &config,
                                       const TracedProcessesPtr &traced, GapTracing tracing);

}  // namespace gpusnoop::probes
