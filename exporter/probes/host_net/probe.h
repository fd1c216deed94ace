// TCP connects and connections of followed processes, and lost UDP datagrams of their cgroups.
#pragma once

#include <functional>
#include <memory>

#include "bpf/host_net/host_net.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

extern const ProbeKind host_net_kind;

// For a trace: drain() passes on each change of state.
using OnTcpState = std::function<void(const net_state_record &, const ProcessIdentity &)>;
std::unique_ptr<Probe> make_tcp_tracer(const config::Config &config,
                                       const TracedProcessesPtr &traced, OnTcpState trace);

}  // namespace gpusnoop::probes
