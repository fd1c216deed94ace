// CPU time, waits, faults, bytes and memory of followed processes, as the kernel keeps them.
#pragma once

#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

using HostTasksConfig = HostSwitch<"tasks", true>;

extern const ProbeKind host_tasks_kind;

}  // namespace gpusnoop::probes
