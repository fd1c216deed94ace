#include "exporter/probes/fence/trace.h"

#include <cstring>
#include <utility>

#include "exporter/probes/fence/names.h"
#include "exporter/probes/fence/probe.h"
#include "exporter/probes/frame/trace/target_tracer.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

namespace {

class FenceTracer final : public TargetTracer {
public:
    explicit FenceTracer(const Setup &setup) : TargetTracer(setup) {}

private:
    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        return probes::make_fence_tracer(setup().config, traced,
                                         [this](const auto &record, const auto &process) {
                                             write(event_of(record, process, clock_offset_ns()));
                                         });
    }
};

template <std::size_t size>
std::string shown_or_unknown(const char (&bytes)[size]) {
    const std::string_view text(bytes, ::strnlen(bytes, size));
    return text.empty() ? "unknown" : printable(text, max_text_bytes);
}

}  // namespace

Event event_of(const fence_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    Event event;
    event.time_ns = began_ns(record.head.at_ns, 0, clock_offset_ns);
    if (record.has_duration != 0) {
        event.duration_ns = record.nanoseconds;
    }
    event.pid = record.head.tgid;
    event.tid = record.tid;
    set_process(event, process);
    event.kind = "event";
    event.name = probes::fence_event_names.at(record.head.type - FENCE_RECORD);
    event.details = {{"driver", shown_or_unknown(record.names.driver)},
                     {"timeline", shown_or_unknown(record.names.timeline)},
                     {"context", std::uint64_t{record.fence.context}},
                     {"seqno", std::uint64_t{record.fence.seqno}}};
    return event;
}

constinit const Kind fence_trace = {.help = "Events of DMA fences, and waits for them.",
                                    .column = "EVENT",
                                    .make = make<FenceTracer>};

}  // namespace gpusnoop::trace
