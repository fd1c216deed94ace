// What the cgroups of followed processes lack, and idle states of the node.
#pragma once

#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

using HostPressureConfig = HostSwitch<"pressure", true>;

extern const ProbeKind host_pressure_kind;

}  // namespace gpusnoop::probes
