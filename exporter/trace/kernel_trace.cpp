// `trace pcie|nvlink|fence|syscall`: the probes of the kernel's side, which tell of each event
// instead of counting it.
#include <time.h>

#include <map>
#include <memory>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/discovery/discovery.h"
#include "exporter/ebpf/counters.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/cuda/probe.h"
#include "exporter/probes/fence/probe.h"
#include "exporter/probes/frame/exclusion.h"
#include "exporter/probes/frame/target_processes.h"
#include "exporter/probes/nvlink/probe.h"
#include "exporter/probes/pcie/devices.h"
#include "exporter/probes/pcie/pci_registers.h"
#include "exporter/probes/pcie/probe.h"
#include "exporter/probes/syscall/probe.h"
#include "exporter/system/machine.h"
#include "exporter/trace/filter.h"
#include "exporter/trace/kernel_events.h"
#include "exporter/trace/lines.h"
#include "exporter/trace/trace.h"
#include "exporter/trace/writer.h"

namespace gpusnoop::trace {

namespace {

class KernelTracer {
public:
    KernelTracer(const KernelOptions &options, int stop_fd)
        : options_(options), writer_(options, stop_fd) {}

    Result<> open(const config::Config &config);
    Result<> run(std::chrono::milliseconds interval);

private:
    Result<> find_gpu_processes(config::Config config, const ebpf::Features &features);
    std::unique_ptr<probes::Probe> make_tracer(const config::Config &config);
    void drain();
    void write(const Event &event);

    const KernelOptions &options_;
    Writer writer_;
    std::map<std::uint64_t, PciRegisters> registers_;  // by device
    probes::TargetProcessesPtr targets_;
    std::unique_ptr<probes::Probe> cuda_;  // null: nobody asks for GPU processes
    std::unique_ptr<probes::Probe> probe_;
    std::unique_ptr<discovery::Discovery> discovery_;  // its thread uses the CUDA probe
    std::int64_t clock_offset_ns_ = 0;
};

// Those that the options name, or else the configuration.
config::Config::Targets targets_of(const KernelOptions &options,
                                   const config::Config::Targets &configured) {
    if (options.pids.empty() && options.ppids.empty() && options.comm.empty()) {
        return configured;
    }
    config::Config::Targets targets;
    targets.gpu_processes = false;
    targets.pids = options.pids;
    // Of these all, one is enough for the kernel: the lines are asked for the others.
    if (options.pids.empty()) {
        targets.parents = options.ppids;
    }
    if (options.pids.empty() && options.ppids.empty()) {
        targets.comms = {options.comm};
    }
    return targets;
}

bool asks_for_processes(KernelEvents events) {
    return events == KernelEvents::fence || events == KernelEvents::syscall;
}

std::string_view column_of(KernelEvents events) {
    switch (events) {
        case KernelEvents::pcie:
            return "ACCESS";
        case KernelEvents::nvlink:
            return "FUNCTION";
        case KernelEvents::fence:
            return "EVENT";
        case KernelEvents::syscall:
            break;
    }
    return "SYSCALL";
}

Result<> KernelTracer::open(const config::Config &config) {
    allow_many_files();
    const auto features = ebpf::probe_features();
    if (const auto usable = ebpf::check_requirements(features); !usable) {
        return usable;
    }
    const config::Config::Targets targets = targets_of(options_, config.targets);
    targets_ = std::make_shared<probes::TargetProcesses>(targets, config.discovery.rescan_interval);
    if (asks_for_processes(options_.events)) {
        const bool wants_gpu_processes =
            targets.gpu_processes && !targets.everything && config.cuda.enabled;
        if (!wants_gpu_processes && !targets.everything && targets.pids.empty() &&
            targets.parents.empty() && targets.comms.empty() && targets.containers.empty()) {
            return fail(
                "no process to trace: name some with --pid, --ppid, --comm or in `targets`");
        }
        if (wants_gpu_processes) {
            if (auto found = find_gpu_processes(config, features); !found) {
                return found;
            }
        }
    }
    probe_ = make_tracer(config);
    if (auto started = probe_->start(); !started) {
        return started;
    }
    const auto health = probe_->health();
    log::info("tracing", {{"events", health.name}});
    if (!health.up) {
        log::info("nothing to attach to yet: waiting for it", {{"reason", health.detail}});
    }
    return {};
}

// The CUDA probe's programs know them; what else it would tell is left out as far as that goes.
Result<> KernelTracer::find_gpu_processes(config::Config config, const ebpf::Features &features) {
    config.cuda.call_stacks = false;
    config.cuda.max_calls_per_second = 1;
    config.cuda.pin = false;
    config.cuda.pin_path.clear();
    cuda_ = probes::cuda_kind.make(config, features, targets_);
    if (auto started = cuda_->start(); !started) {
        return started;
    }
    auto discovery =
        discovery::Discovery::open({.rescan_interval = config.discovery.rescan_interval,
                                    .exclude = probes::exclusion(config.discovery.exclude)},
                                   {cuda_->attacher()});
    if (!discovery) {
        return tl::unexpected(discovery.error());
    }
    discovery_ = std::move(*discovery);
    discovery_->start();
    return {};
}

std::unique_ptr<probes::Probe> KernelTracer::make_tracer(const config::Config &config) {
    switch (options_.events) {
        case KernelEvents::pcie:
            // Before anything is traced, so that this reading is not.
            for (const std::uint64_t device : probes::find_pci_devices(config.pcie.classes)) {
                registers_.emplace(device, registers_of(device));
            }
            return probes::make_pcie_tracer(config, [this](const pcie_record &record) {
                std::string name = registers_[record.device].name(record.offset);
                write(event_of(record, std::move(name), clock_offset_ns_));
            });
        case KernelEvents::nvlink:
            return probes::make_nvlink_tracer(config, [this](const nvlink_record &record) {
                write(event_of(record, clock_offset_ns_));
            });
        case KernelEvents::fence:
            return probes::make_fence_tracer(config, targets_,
                                             [this](const auto &record, const auto &process) {
                                                 write(event_of(record, process, clock_offset_ns_));
                                             });
        case KernelEvents::syscall:
            break;
    }
    config::Config chosen = config;
    if (!options_.syscalls.empty()) {
        chosen.syscall.syscalls = options_.syscalls;
    }
    return probes::make_syscall_tracer(chosen, targets_,
                                       [this](const auto &record, const auto &process) {
                                           write(event_of(record, process, clock_offset_ns_));
                                       });
}

void KernelTracer::write(const Event &event) {
    if (!writer_.done() && wants_pid(options_, event.pid) && wants_ppid(options_, event.ppid) &&
        wants_comm(options_, event.comm)) {
        writer_.write(options_.format == Format::json ? json_line(event) : text_line(event));
    }
}

void KernelTracer::drain() {
    clock_offset_ns_ = now_on(CLOCK_REALTIME).count() - now_on(CLOCK_MONOTONIC).count();
    if (cuda_) {
        cuda_->drain();
    }
    probe_->drain();
}

Result<> KernelTracer::run(std::chrono::milliseconds interval) {
    return writer_.run({interval, text_header(column_of(options_.events)), [this] { drain(); },
                        [this] {
                            const probes::Health health = probe_->health();
                            return ebpf::lost_calls(health.account) + health.skipped;
                        }});
}

}  // namespace

Result<> trace_kernel(const config::Config &config, const KernelOptions &options, int stop_fd) {
    KernelTracer tracer(options, stop_fd);
    if (auto opened = tracer.open(config); !opened) {
        return opened;
    }
    return tracer.run(std::min(config.cuda.drain_interval, config.functions.drain_interval));
}

}  // namespace gpusnoop::trace
