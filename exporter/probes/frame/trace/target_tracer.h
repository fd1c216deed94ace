// A trace of a probe that traces targets, such as GPU processes.
#pragma once

#include <memory>

#include "exporter/discovery/discovery.h"
#include "exporter/probes/frame/processes/traced_processes.h"
#include "exporter/probes/frame/reports/report_facts.h"
#include "exporter/probes/frame/trace/event_tracer.h"

namespace gpusnoop::trace {

class TargetTracer : public EventTracer {
public:
    void drain(std::chrono::nanoseconds to_realtime) override;

protected:
    explicit TargetTracer(const Setup &setup) : EventTracer(setup) {}

    virtual std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) = 0;
    // Of a host probe.
    [[nodiscard]] virtual probes::Following following() const { return {}; }
    // Whether GPU processes are targets, too, where the options name others.
    [[nodiscard]] virtual bool adds_gpu_processes() const { return false; }
    // Whether all events are of GPU processes, and only what `cuda` sees of them makes events.
    [[nodiscard]] virtual bool needs_cuda() const { return false; }
    // Where `cuda` hands over what it has counted of processes that end; null: nobody wants it.
    [[nodiscard]] virtual probes::ReportFactsPtr report_facts() const { return nullptr; }
    // The settings of the probe, and of the one that knows GPU processes.
    [[nodiscard]] virtual config::Config settings() const { return setup().config; }

private:
    Result<std::unique_ptr<probes::Probe>> make_probe() final;
    Result<> find_gpu_processes();

    std::unique_ptr<probes::Probe> gpu_processes_;     // null: GPU processes are not needed
    std::unique_ptr<discovery::Discovery> discovery_;  // its thread uses that probe
};

}  // namespace gpusnoop::trace
