#include "exporter/probes/host_net/trace.h"

#include <memory>
#include <string>

#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/trace/host_tracer.h"
#include "exporter/probes/host_net/aggregator.h"
#include "exporter/probes/host_net/connections.h"
#include "exporter/probes/host_net/probe.h"
#include "exporter/symbols/names/syscall_names.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

namespace {

class TcpTracer final : public HostTracer {
public:
    explicit TcpTracer(const Setup &setup) : HostTracer(setup) {}

private:
    std::unique_ptr<probes::Probe> make_probe_of(
        const probes::TracedProcessesPtr &traced) override {
        return probes::make_tcp_tracer(setup().config, traced,
                                       [this](const auto &record, const auto &process) {
                                           write(event_of(record, process, clock_offset_ns()));
                                       });
    }
};

}  // namespace

Event event_of(const net_state_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    Event event;
    event.time_ns = began_ns(record.head.at_ns, 0, clock_offset_ns);
    event.pid = record.head.tgid;
    set_process(event, process);
    event.kind = "new_state";
    event.name = std::string(probes::tcp_state_name(record.new_state));
    event.details = {
        {"role", std::string(probes::followed_role_names.at(record.role))},
        {"old_state", std::string(probes::tcp_state_name(record.old_state))},
        {"in_state_ns",
         record.in_state_ns != 0 ? Value(std::uint64_t{record.in_state_ns}) : Value()},
        {"local", probes::local_address(record.addresses)},
        {"remote", probes::remote_address(record.addresses)},
        {"peer", std::string(probes::peer_name(record.addresses.peer))},
        {"error", record.error != 0 ? Value(std::string(errno_name(record.error))) : Value()}};
    return event;
}

constinit const Kind tcp_trace = {
    .name = "tcp",
    .help = "State changes of TCP connections of GPU processes and the processes they start.",
    .column = "STATE",
    .make = make<TcpTracer>};

}  // namespace gpusnoop::trace
