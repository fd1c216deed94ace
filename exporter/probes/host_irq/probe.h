// Interrupts that run in the place of followed processes' threads.
#pragma once

#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

using HostIrqConfig = HostSwitch<"irq", false>;

extern const ProbeKind host_irq_kind;

}  // namespace gpusnoop::probes
