// Accesses to the configuration space of GPUs and NVLink bridges, by drivers and by user space.
#pragma once

#include <memory>

#include "bpf/pcie.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/pcie/aggregator.h"

namespace gpusnoop::probes {

extern const ProbeKind pcie_kind;

// For a trace: drain() passes on each access, and counts nothing.
std::unique_ptr<Probe> make_pcie_tracer(const config::Config &config, OnAccess on_access);

}  // namespace gpusnoop::probes
