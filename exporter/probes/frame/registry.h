// The list of probes.
#pragma once

#include <memory>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/probe.h"

namespace gpusnoop::probes {

// The probes that the configuration enables, not started.
std::vector<std::unique_ptr<Probe>> make_probes(const config::Config &config,
                                                const ebpf::Features &features);

}  // namespace gpusnoop::probes
