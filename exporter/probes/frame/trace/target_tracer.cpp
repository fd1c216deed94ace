#include "exporter/probes/frame/trace/target_tracer.h"

#include "exporter/probes/frame/libraries/start_discovery.h"
#include "exporter/probes/frame/registry.h"

namespace gpusnoop::trace {

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
