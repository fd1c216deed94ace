// A trace of a probe whose drain() passes on events one by one. It writes the selected ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "exporter/discovery/discovery.h"
#include "exporter/probes/frame/host_settings.h"
#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/processes/traced_processes.h"
#include "exporter/probes/frame/reports/report_facts.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

class EventTracer : public Tracer {
public:
    Result<> start() override;
    [[nodiscard]] std::chrono::milliseconds interval() const final;
    void drain(std::chrono::nanoseconds to_realtime) override;
    [[nodiscard]] std::uint64_t lost() const final;

protected:
    explicit EventTracer(const Setup &setup) : setup_(setup) {}

    // Hands each event to write().
    virtual Result<std::unique_ptr<probes::Probe>> make_probe() = 0;
    void write(const Event &event);

    [[nodiscard]] const Setup &setup() const { return setup_; }
    // How far the wall clock is ahead of the monotonic one.
    [[nodiscard]] std::int64_t clock_offset_ns() const { return clock_offset_ns_; }

private:
    const Setup setup_;
    std::unique_ptr<probes::Probe> probe_;
    std::int64_t clock_offset_ns_ = 0;
};

// The trace of a probe `P` that is made of the configuration and of a function, to which it hands
// each record and its process instead of counting it.
template <typename P, typename Record,
          Event (*event_of)(const Record &, const probes::ProcessIdentity &, std::int64_t)>
class RecordTracer final : public EventTracer {
public:
    explicit RecordTracer(const Setup &setup) : EventTracer(setup) {}

private:
    Result<std::unique_ptr<probes::Probe>> make_probe() override {
        return std::make_unique<P>(
            setup().config, [this](const Record &record, const probes::ProcessIdentity &process) {
                write(event_of(record, process, clock_offset_ns()));
            });
    }
};

// Of a process that made a call; thread 0: none, or not known.
[[nodiscard]] Event make_event(std::int64_t time_ns, std::uint32_t pid, std::uint32_t tid,
                               const probes::ProcessIdentity &process, std::string_view kind,
                               std::string name);
// Sets the process that the kernel worked for. Process 0 means an interrupt.
void set_caller(Event &event, std::uint32_t tgid, std::uint32_t tid,
                const probes::ProcessIdentity &process);

// A trace of a probe that traces targets, such as GPU processes.
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
