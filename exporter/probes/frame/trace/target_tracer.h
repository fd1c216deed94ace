// A trace of a probe that traces targets, such as GPU processes.
#pragma once

#include <cstdint>
#include <memory>

#include "exporter/discovery/discovery.h"
#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/processes/process_identity.h"
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

// Of a probe `P` that hands each record and its process to a function instead of counting it.
template <typename Base, typename P, typename Record,
          Event (*event_of)(const Record &, const probes::ProcessIdentity &, std::int64_t)>
class TargetRecordTracer final : public Base {
public:
    explicit TargetRecordTracer(const Setup &setup) : Base(setup) {}

private:
    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        return std::make_unique<P>(
            this->setup().config, traced,
            [this](const Record &record, const probes::ProcessIdentity &process) {
                this->write(event_of(record, process, this->clock_offset_ns()));
            });
    }
};

// Of a host probe, which follows processes and what they start.
class HostTracer : public TargetTracer {
protected:
    explicit HostTracer(const Setup &setup) : TargetTracer(setup) {}

    [[nodiscard]] probes::Following following() const override {
        return {.enabled = true,
                .descendants = setup().config.of<probes::HostConfig>().descendants};
    }
};

}  // namespace gpusnoop::trace
