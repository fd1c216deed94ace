// Stalls of followed processes for lack of memory.
#pragma once

#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

using HostMemoryConfig = HostSwitch<"memory", true>;

extern const ProbeKind host_memory_kind;

}  // namespace gpusnoop::probes
