// Accesses to the configuration space of GPUs and NVLink bridges, by drivers and by user space.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bpf/pcie.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/pcie/aggregator.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::probes {

extern const ProbeKind pcie_kind;

// For a trace: drain() passes on each access, and counts nothing.
std::unique_ptr<Probe> make_pcie_tracer(const config::Config &config, OnAccess on_access);

struct PcieConfig {
    bool enabled = true;
    // The prefix of a device's class, as in /sys, in lower case; "" is every device.
    std::vector<std::string> classes = {"0x03", "0x0680"};
    std::uint32_t ring_bytes = 1U << 20U;  // a power of two
    bool operator==(const PcieConfig &) const = default;
};

void read_pcie(config::Section pcie, config::Config &config);

}  // namespace gpusnoop::probes

namespace gpusnoop::trace {

// `trace pcie`: each access to the configuration space of the devices.
extern const Kind pcie_trace;

// `register_name` is "" if it is not known; `clock_offset_ns` as in began_ns().
[[nodiscard]] Event event_of(const pcie_record &record, const probes::ProcessIdentity &process,
                             std::string register_name, std::int64_t clock_offset_ns);

}  // namespace gpusnoop::trace
