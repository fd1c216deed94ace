// Interrupts that run in the place of followed processes' threads.
#pragma once

#include <string_view>

#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

// The part `irq:` of the block `host:` of the configuration.
struct HostIrqConfig {
    static constexpr std::string_view part = "irq";
    bool enabled = false;
    bool operator==(const HostIrqConfig &) const = default;
};

extern const ProbeKind host_irq_kind;

}  // namespace gpusnoop::probes
