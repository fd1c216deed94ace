#include "exporter/probes/cuda/trace/target_tracer.h"

#include "exporter/probes/cuda/probe.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/frame/start_discovery.h"

namespace gpusnoop::trace {

namespace {

// The processes that the options name, or else the configuration.
probes::TargetsConfig targets_of(const Options &options, const probes::TargetsConfig &configured) {
    if (options.pids.empty() && options.ppids.empty() && options.comm.empty()) {
        return configured;
    }
    probes::TargetsConfig targets;
    targets.gpu_processes = false;
    targets.pids = options.pids;
    // The kernel selects by one of the options. The lines are asked for the others.
    if (options.pids.empty()) {
        targets.parents = options.ppids;
    }
    if (options.pids.empty() && options.ppids.empty()) {
        targets.comms = {options.comm};
    }
    return targets;
}

}  // namespace

Result<std::unique_ptr<probes::Probe>> TargetTracer::make_probe() {
    const config::Config &config = setup().config;
    const probes::TargetsConfig chosen =
        targets_of(setup().options, config.of<probes::TargetsConfig>());
    const bool wants_gpu_processes =
        chosen.gpu_processes && !chosen.everything && config.of<probes::CudaConfig>().enabled;
    if (!wants_gpu_processes && !chosen.everything && chosen.pids.empty() &&
        chosen.parents.empty() && chosen.comms.empty() && chosen.containers.empty()) {
        return fail("no process to trace: name some with --pid, --ppid, --comm or in `targets`");
    }
    const auto targets =
        std::make_shared<probes::TargetProcesses>(chosen, config.discovery.rescan_interval);
    if (wants_gpu_processes) {
        if (auto found = find_gpu_processes(targets); !found) {
            return tl::unexpected(found.error());
        }
    }
    return make_probe_of(targets);
}

// The CUDA probe's programs know them. As far as that goes, the probe does nothing else.
Result<> TargetTracer::find_gpu_processes(const probes::TargetProcessesPtr &targets) {
    config::Config config = setup().config;
    auto cuda = config.of<probes::CudaConfig>();
    cuda.call_stacks = false;
    cuda.max_calls_per_second = 1;
    cuda.pin = false;
    cuda.pin_path.clear();
    config.set(std::move(cuda));
    cuda_ = probes::cuda_kind.make(config, setup().features, targets);
    if (auto started = cuda_->start(); !started) {
        return started;
    }
    auto discovery = probes::start_discovery(config, *cuda_->attacher());
    if (!discovery) {
        return tl::unexpected(discovery.error());
    }
    discovery_ = std::move(*discovery);
    return {};
}

void TargetTracer::drain(std::chrono::nanoseconds to_realtime) {
    if (cuda_) {
        cuda_->drain();
    }
    EventTracer::drain(to_realtime);
}

}  // namespace gpusnoop::trace
