// A trace of a probe whose drain() passes on events one by one. It writes the selected ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "exporter/probes/frame/probe.h"
#include "exporter/probes/frame/processes/process_identity.h"
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

// Sets the process that made the call.
void set_process(Event &event, const probes::ProcessIdentity &process);
// Sets the process that the kernel worked for. Process 0 means an interrupt.
void set_caller(Event &event, std::uint32_t tgid, std::uint32_t tid,
                const probes::ProcessIdentity &process);

}  // namespace gpusnoop::trace
