#include "exporter/config/reload.h"

namespace gpusnoop::config {

std::vector<std::string> keys_for_restart(const Config &started, const Config &wanted) {
    std::vector<std::string> keys;
    const auto compare = [&](const char *key, const auto &before, const auto &after) {
        if (before != after) {
            keys.emplace_back(key);
        }
    };
    compare("web.listen_address", started.web.listen_addresses, wanted.web.listen_addresses);
    compare("web.telemetry_path", started.web.telemetry_path, wanted.web.telemetry_path);
    compare("log.format", started.log.format, wanted.log.format);
    compare("capabilities.keep", started.capabilities.keep, wanted.capabilities.keep);
    compare("labels.pid", started.labels.pid, wanted.labels.pid);
    compare("series.budget", started.series.budget, wanted.series.budget);
    compare("series.budgets", started.series.budgets, wanted.series.budgets);
    compare("series.retention", started.series.retention, wanted.series.retention);
    compare("discovery.rescan_interval", started.discovery.rescan_interval,
            wanted.discovery.rescan_interval);
    compare("discovery.nvidia_proc_path", started.discovery.nvidia_proc_path,
            wanted.discovery.nvidia_proc_path);
    compare("discovery.exclude", started.discovery.exclude, wanted.discovery.exclude);
    const Config::Cuda &cuda = started.cuda;
    compare("cuda.enabled", cuda.enabled, wanted.cuda.enabled);
    compare("cuda.libraries", cuda.libraries, wanted.cuda.libraries);
    compare("cuda.attach", cuda.attach, wanted.cuda.attach);
    compare("cuda.endings", cuda.endings, wanted.cuda.endings);
    compare("cuda.max_calls_per_second", cuda.max_calls_per_second,
            wanted.cuda.max_calls_per_second);
    compare("cuda.allocation_ring_bytes", cuda.allocation_ring_bytes,
            wanted.cuda.allocation_ring_bytes);
    compare("cuda.call_ring_bytes", cuda.call_ring_bytes, wanted.cuda.call_ring_bytes);
    compare("cuda.drain_interval", cuda.drain_interval, wanted.cuda.drain_interval);
    compare("cuda.max_live_allocations", cuda.max_live_allocations,
            wanted.cuda.max_live_allocations);
    compare("cuda.max_registered_kernels", cuda.max_registered_kernels,
            wanted.cuda.max_registered_kernels);
    compare("cuda.pin", cuda.pin, wanted.cuda.pin);
    compare("cuda.pin_path", cuda.pin_path, wanted.cuda.pin_path);
    compare("cuda.call_stacks", cuda.call_stacks, wanted.cuda.call_stacks);
    compare("cuda.max_call_stacks", cuda.max_call_stacks, wanted.cuda.max_call_stacks);
    compare("cuda.call_sites", cuda.call_sites, wanted.cuda.call_sites);
    const Config::Targets &targets = started.targets;
    compare("targets.gpu_processes", targets.gpu_processes, wanted.targets.gpu_processes);
    compare("targets.everything", targets.everything, wanted.targets.everything);
    compare("targets.pids", targets.pids, wanted.targets.pids);
    compare("targets.comms", targets.comms, wanted.targets.comms);
    compare("targets.containers", targets.containers, wanted.targets.containers);
    compare("syscall.enabled", started.syscall.enabled, wanted.syscall.enabled);
    compare("syscall.syscalls", started.syscall.syscalls, wanted.syscall.syscalls);
    compare("syscall.max_counts", started.syscall.max_counts, wanted.syscall.max_counts);
    compare("fence.enabled", started.fence.enabled, wanted.fence.enabled);
    compare("fence.max_fences", started.fence.max_fences, wanted.fence.max_fences);
    compare("fence.ring_bytes", started.fence.ring_bytes, wanted.fence.ring_bytes);
    const Config::Functions &functions = started.functions;
    // There is no probe then that could be switched on.
    compare("functions.enabled", functions.enabled, functions.enabled || wanted.functions.enabled);
    compare("functions.attach", functions.attach, wanted.functions.attach);
    compare("functions.max_calls_per_second", functions.max_calls_per_second,
            wanted.functions.max_calls_per_second);
    compare("functions.ring_bytes", functions.ring_bytes, wanted.functions.ring_bytes);
    compare("functions.drain_interval", functions.drain_interval, wanted.functions.drain_interval);
    compare("functions.slow_calls", functions.slow_calls, wanted.functions.slow_calls);
    compare("functions.report", functions.report, wanted.functions.report);
    compare("pcie.enabled", started.pcie.enabled, wanted.pcie.enabled);
    compare("pcie.classes", started.pcie.classes, wanted.pcie.classes);
    compare("pcie.ring_bytes", started.pcie.ring_bytes, wanted.pcie.ring_bytes);
    compare("nvlink.enabled", started.nvlink.enabled, wanted.nvlink.enabled);
    compare("nvlink.ring_bytes", started.nvlink.ring_bytes, wanted.nvlink.ring_bytes);
    compare("sinks", started.sinks, wanted.sinks);
    return keys;
}

}  // namespace gpusnoop::config
