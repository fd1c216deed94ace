// A trace of a host probe, which follows processes and what they start.
#pragma once

#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/trace/target_tracer.h"

namespace gpusnoop::trace {

class HostTracer : public TargetTracer {
protected:
    explicit HostTracer(const Setup &setup) : TargetTracer(setup) {}

    [[nodiscard]] probes::Following following() const override {
        return {.enabled = true,
                .descendants = setup().config.of<probes::HostConfig>().descendants};
    }
};

}  // namespace gpusnoop::trace
