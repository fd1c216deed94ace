// Calls of three helpers inside the NVIDIA driver. They are not NVLink traffic: the driver uses
// them when it trains links and answers ioctls.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/kernel/features.h"
#include "exporter/probes/probe.h"

namespace gpusnoop::probes {

std::unique_ptr<Probe> make_nvlink(const config::Config &config, const kernel::Features &features);

}  // namespace gpusnoop::probes
