#include "exporter/probes/host_kvm/probe.h"

#include <string>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/ebpf/object.h"
#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/target_table.h"
#include "exporter/probes/frame/trace/event_tracer.h"
#include "exporter/probes/host_kvm/aggregator.h"
#include "exporter/trace/lines.h"
#include "host_kvm.skel.h"

namespace gpusnoop::probes {

namespace {

using KvmTrace = std::function<void(const kvm_record &, const ProcessIdentity &)>;

class HostKvmProbe final : public HostProbe<host_kvm_bpf, HostKvmAggregator> {
public:
    // `trace`: instead of counts.
    HostKvmProbe(const config::Config &config, TracedProcessesPtr traced, KvmTrace trace = {})
        : HostProbe("host_kvm", config, std::move(traced)),
          trace_(std::move(trace)),
          can_find_any_(names_any(config.of<TargetsConfig>())) {}

private:
    Result<> configure_programs(host_kvm_bpf &skeleton) override {
        skeleton.rodata->tracing = trace_ != nullptr;
        // A trace has no use for them, and they are where a guest spends its time.
        ebpf::load_if(skeleton.progs.kvm_leaves, trace_ == nullptr);
        ebpf::load_if(skeleton.progs.kvm_enters, trace_ == nullptr);
        return {};
    }

    std::vector<ProbeRing> rings(host_kvm_bpf &skeleton) override {
        return ring_of_trace<kvm_record>(
            skeleton.maps.kvm_events,
            [this](const auto &record) { return record.event < KVM_EVENTS && trace_ != nullptr; },
            [this](const auto &record, const auto &process) { trace_(record, process); });
    }

    Result<> attach(host_kvm_bpf &skeleton) override {
        std::vector<const bpf_program *> programs = {skeleton.progs.kvm_returns,
                                                     skeleton.progs.kvm_wakes};
        if (!trace_) {
            programs.push_back(skeleton.progs.kvm_enters);
            programs.push_back(skeleton.progs.kvm_leaves);
        }
        if (!can_find_any_) {
            log::warn(
                "host.kvm counts nothing: name the processes that run virtual machines in "
                "targets, such as comms: [\"qemu-system-*\"]",
                {{"probe", "host_kvm"}});
        }
        return attach_following(programs, "virtual machines");
    }

    void refresh() override {
        read_counts<kvm_key, counted_times>(skeleton().maps.kvm_counts, "exits of virtual machines",
                                            [&](const kvm_key &key, const counted_times &times) {
                                                aggregator().on_times(key, times);
                                            });
    }

    const KvmTrace trace_;
    const bool can_find_any_;
};

constexpr KernelNeed kvm_needs[] = {
    {.thing = "the tracepoints of virtual machines",
     .reason = "the module kvm is not loaded, has no BTF, or needs CAP_SYS_ADMIN to be looked at",
     .costs = "the probe fails; load the module before the exporter starts",
     .is_met = has_tracepoints<"kvm:kvm_exit", "kvm:kvm_entry", "kvm:kvm_userspace_exit",
                               "kvm:kvm_vcpu_wakeup">},
    {.thing = "processes that run virtual machines",
     .reason = "`targets` names none",
     .costs = "nothing is counted",
     .is_met = [](const KernelView & /*kernel*/,
                  const config::Config &config) { return names_any(config.of<TargetsConfig>()); }},
};

constexpr const trace::Kind *kvm_traces[] = {&trace::kvm_trace};

}  // namespace

constinit const ProbeKind host_kvm_kind = {
    .name = "host_kvm",
    .title = "Exits of virtual machines",
    .make = make_if_enabled<HostKvmProbe, HostKvmConfig>,
    .read_host = read_host_switch<HostKvmConfig>,
    .follows_processes = is_enabled<HostKvmConfig>,
    .kernel_needs = kvm_needs,
    .attaches_to_modules = is_enabled<HostKvmConfig>,
    .declare = declare_families<make_host_kvm_families>,
    .counts = {.entries = true,
               .in_flight = true,
               .lost = lost_for({LOST_ring_full, LOST_process_table, LOST_table_full})},
    .named_traces = kvm_traces,
};

}  // namespace gpusnoop::probes

namespace gpusnoop::trace {

Event event_of(const kvm_record &record, const probes::ProcessIdentity &process,
               std::int64_t clock_offset_ns) {
    const bool is_halt = record.event == KVM_HALT;
    Event event =
        make_event(began_ns(record.head.at_ns, record.nanoseconds, clock_offset_ns),
                   record.head.tgid, record.tid, process, "reason",
                   is_halt ? "halt" : std::string(probes::kvm_reason_name(record.reason)));
    if (is_halt) {
        event.duration_ns = record.nanoseconds;
    }
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
    .make = make<TargetRecordTracer<HostTracer, probes::HostKvmProbe, kvm_record, event_of>>};

}  // namespace gpusnoop::trace
