#include "exporter/probes/nvlink/trace.h"

#include "exporter/probes/frame/event_tracer.h"
#include "exporter/probes/nvlink/probe.h"

namespace gpusnoop::trace {

namespace {

class NvlinkTracer final : public EventTracer {
public:
    explicit NvlinkTracer(const Setup &setup) : EventTracer(setup) {}

private:
    Result<std::unique_ptr<probes::Probe>> make_probe() override {
        return probes::make_nvlink_tracer(setup().config,
                                          [this](const auto &record, const auto &process) {
                                              write(event_of(record, process, clock_offset_ns()));
                                          });
    }
};

}  // namespace

Event event_of(const nvlink_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    Event event;
    event.time_ns = began_ns(record.ended_ns, record.duration_ns, clock_offset_ns);
    event.duration_ns = record.duration_ns;
    set_caller(event, record.tgid, record.tid, process);
    event.kind = "function";
    event.name = probes::nvlink_function(record.op);
    event.details = {{"bytes", std::uint64_t{record.bytes}}};
    return event;
}

constinit const Kind nvlink_trace = {.help = "Calls of the NVIDIA driver's nvlink_* helpers.",
                                     .make = make<NvlinkTracer>};

}  // namespace gpusnoop::trace
