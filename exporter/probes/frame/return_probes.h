// Return probes only where they do no harm.
#pragma once

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/functions/settings.h"

namespace gpusnoop::probes {

// The same, with the ends of calls seen at exits where this kernel's return probes would end
// programs (ebpf::Features::has_harmless_return_probes()).
[[nodiscard]] config::Config::Cuda as_is_harmless(config::Config::Cuda cuda,
                                                  const ebpf::Features &features);
[[nodiscard]] config::FunctionGroups as_is_harmless(config::FunctionGroups groups,
                                                    const ebpf::Features &features);

}  // namespace gpusnoop::probes
