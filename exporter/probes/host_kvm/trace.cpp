#include "exporter/probes/host_kvm/trace.h"

#include <memory>
#include <string>

#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/trace/host_tracer.h"
#include "exporter/probes/host_kvm/probe.h"
#include "exporter/probes/host_kvm/reasons.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

namespace {

class KvmTracer final : public HostTracer {
public:
    explicit KvmTracer(const Setup &setup) : HostTracer(setup) {}

private:
    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        return probes::make_kvm_tracer(setup().config, traced,
                                       [this](const auto &record, const auto &process) {
                                           write(event_of(record, process, clock_offset_ns()));
                                       });
    }
};

}  // namespace

Event event_of(const kvm_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    const bool is_halt = record.event == KVM_HALT;
    Event event;
    event.time_ns = began_ns(record.head.at_ns, record.nanoseconds, clock_offset_ns);
    if (is_halt) {
        event.duration_ns = record.nanoseconds;
    }
    event.pid = record.head.tgid;
    event.tid = record.tid;
    set_process(event, process);
    event.kind = "reason";
    event.name = is_halt ? "halt" : std::string(probes::kvm_reason_name(record.reason));
    event.details = {
        {"role", std::string(probes::followed_role_names.at(record.role))},
        {"polled", is_halt ? Value(std::string(record.reason == 0 ? "true" : "false")) : Value()}};
    return event;
}

constinit const Kind kvm_trace = {
    .name = "kvm",
    .help = "Exits of virtual machines to their process, and halts of their virtual CPUs.",
    .column = "REASON",
    .options = {},
    .make = make<KvmTracer>};

}  // namespace gpusnoop::trace
