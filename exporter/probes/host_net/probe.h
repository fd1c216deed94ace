// TCP connects and connections of followed processes, and lost UDP datagrams of their cgroups.
#pragma once

#include <chrono>
#include <cstdint>

#include "bpf/host_net/host_net.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::probes {

extern const ProbeKind host_net_kind;

struct HostNetConfig {
    bool enabled = true;
    // How often the sockets of followed processes are read.
    std::chrono::milliseconds look_interval = std::chrono::seconds(10);
    std::uint32_t max_sockets = 65'536;  // that are kept for /api/v1/connections
    bool operator==(const HostNetConfig &) const = default;
};

void read_host_net(config::Section &host, config::Config &config);

}  // namespace gpusnoop::probes

namespace gpusnoop::trace {

// `trace tcp`: each change of state of TCP connections of followed processes.
extern const Kind tcp_trace;

// `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const net_state_record &record, const probes::ProcessIdentity &process,
                             std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
