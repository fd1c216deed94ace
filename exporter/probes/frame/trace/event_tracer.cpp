#include "exporter/probes/frame/trace/event_tracer.h"

#include <utility>

#include "exporter/base/log.h"
#include "exporter/ebpf/kernel_types.h"
#include "exporter/ebpf/maps/counters.h"
#include "exporter/probes/frame/libraries/start_discovery.h"
#include "exporter/probes/frame/registry.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::trace {

namespace {

void set_process(Event &event, const probes::ProcessIdentity &process) {
    event.ppid = process.ppid;
    static_cast<processes::ProcessNames &>(event) = printable(process);
}

}  // namespace

Event make_event(std::int64_t time_ns, std::uint32_t pid, std::uint32_t tid,
                 const probes::ProcessIdentity &process, std::string_view kind, std::string name) {
    Event event;
    event.time_ns = time_ns;
    event.pid = pid;
    event.tid = tid;
    set_process(event, process);
    event.kind = kind;
    event.name = std::move(name);
    return event;
}

void set_caller(Event &event, std::uint32_t tgid, std::uint32_t tid,
                const probes::ProcessIdentity &process) {
    event.pid = tgid;
    event.tid = tid;
    if (tgid == 0) {
        event.comm = "interrupt";
        return;
    }
    set_process(event, process);
}

Result<> EventTracer::start() {
    const ebpf::SharedKernelTypes types;
    auto probe = make_probe();
    if (!probe) {
        return tl::unexpected(probe.error());
    }
    probe_ = std::move(*probe);
    if (auto started = probe_->start(); !started) {
        return started;
    }
    const probes::Health health = probe_->health();
    log::info("tracing", {{"events", health.name}});
    if (!health.is_up()) {
        log::info("nothing to attach to yet: waiting for it", {{"reason", health.detail}});
    }
    return {};
}

std::chrono::milliseconds EventTracer::interval() const {
    return probes::drain_interval(setup().config);
}

void EventTracer::drain(std::chrono::nanoseconds to_realtime) {
    clock_offset_ns_ = to_realtime.count();
    probe_->drain();
}

std::uint64_t EventTracer::lost() const {
    const probes::Health health = probe_->health();
    return ebpf::lost_calls(health.account) + health.runs.skipped;
}

void EventTracer::write(const Event &event) {
    const Options &options = setup_.options;
    if (wants_pid(options, event.pid) && wants_ppid(options, event.ppid) &&
        wants_comm(options, event.comm)) {
        setup_.writer.write(event);
    }
}

namespace {

// The processes that the options name, or else the processes of the configuration.
probes::TargetsConfig targets_of(const Options &options, const probes::TargetsConfig &configured) {
    if (options.pids.empty() && options.ppids.empty() && options.comm.empty()) {
        return configured;
    }
    probes::TargetsConfig targets;
    targets.gpu_processes = false;
    targets.pids = options.pids;
    // The kernel selects by one of the options. The others are checked for each line.
    if (options.pids.empty()) {
        targets.parents = options.ppids;
    }
    if (options.pids.empty() && options.ppids.empty()) {
        targets.comms = {options.comm};
    }
    return targets;
}

// Null if no probe knows GPU processes.
std::unique_ptr<probes::Probe> make_gpu_processes(const config::Config &config,
                                                  const ebpf::Features &features,
                                                  const probes::TracedProcessesPtr &traced,
                                                  const probes::ReportFactsPtr &report_facts) {
    probes::Shared shared{.traced = traced, .sinks = nullptr};
    if (report_facts) {
        shared.report_facts = report_facts;
    }
    for (const probes::ProbeKind *const kind : probes::all_probes()) {
        if (kind->make_gpu_processes != nullptr) {
            return kind->make_gpu_processes(config, features, shared);
        }
    }
    return nullptr;
}

}  // namespace

Result<std::unique_ptr<probes::Probe>> TargetTracer::make_probe() {
    const config::Config config = settings();
    probes::TargetsConfig chosen =
        needs_cuda() ? probes::TargetsConfig()
                     : targets_of(setup().options, config.of<probes::TargetsConfig>());
    chosen.gpu_processes = chosen.gpu_processes || adds_gpu_processes();
    const auto traced = std::make_shared<probes::TracedProcesses>(
        chosen, config.discovery.rescan_interval, following());
    if (chosen.gpu_processes && !chosen.all_processes) {
        gpu_processes_ = make_gpu_processes(config, setup().features, traced, report_facts());
    }
    if (!gpu_processes_ && !chosen.all_processes && chosen.pids.empty() && chosen.parents.empty() &&
        chosen.comms.empty() && chosen.containers.empty()) {
        return fail("no process to trace: name some with --pid, --ppid, --comm or in `targets`");
    }
    if (gpu_processes_) {
        if (auto found = find_gpu_processes(); !found) {
            return tl::unexpected(found.error());
        }
    }
    return make_probe_of(traced);
}

Result<> TargetTracer::find_gpu_processes() {
    if (auto started = gpu_processes_->start(); !started) {
        return started;
    }
    auto discovery = probes::start_discovery(setup().config, *gpu_processes_->attacher());
    if (!discovery) {
        return tl::unexpected(discovery.error());
    }
    discovery_ = std::move(*discovery);
    return {};
}

void TargetTracer::drain(std::chrono::nanoseconds to_realtime) {
    if (gpu_processes_) {
        gpu_processes_->drain();
    }
    EventTracer::drain(to_realtime);
}

}  // namespace gpusnoop::trace
