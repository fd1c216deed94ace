// Accesses to the configuration space of GPUs and NVLink bridges, by drivers and by user space.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/kernel/features.h"
#include "exporter/probes/probe.h"

namespace gpusnoop::probes {

std::unique_ptr<Probe> make_pcie(const config::Config &config, const kernel::Features &features);

}  // namespace gpusnoop::probes
