// Examines what single probes need of the kernel.
#pragma once

#include <vector>

#include "exporter/cli/doctor/finding.h"
#include "exporter/config/config.h"
#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::doctor {

// For each probe with such needs, whether they are met. What a probe lacks that is off costs
// nothing.
[[nodiscard]] std::vector<Finding> judge_probes(const probes::KernelView &kernel,
                                                const config::Config &config);

// The same of this machine.
[[nodiscard]] std::vector<Finding> examine_probes(const config::Config &config);

}  // namespace gpusnoop::doctor
