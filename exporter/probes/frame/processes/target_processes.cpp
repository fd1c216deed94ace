#include "exporter/probes/frame/processes/target_processes.h"

#include <bpf/libbpf.h>

#include <utility>

#include "bpf/lib/processes/target.h"

namespace gpusnoop::probes {

TargetProcesses::TargetProcesses(TargetsConfig config, std::chrono::nanoseconds rescan_interval,
                                 const GpuProcessMaps &gpu_processes)
    : config_(std::move(config)),
      rescan_interval_(rescan_interval),
      gpu_processes_(gpu_processes) {}

std::uint32_t TargetProcesses::kinds() const {
    if (config_.all_processes) {
        return TARGET_EVERYTHING;
    }
    std::uint32_t kinds = 0;
    kinds |= config_.gpu_processes ? std::uint32_t{TARGET_GPU_PROCESSES} : 0U;
    kinds |= names_any() ? std::uint32_t{TARGET_CONFIGURED} : 0U;
    return kinds;
}

Result<> TargetProcesses::start() {
    const std::lock_guard lock(mutex_);
    if (!started_) {
        started_.emplace();
        if (names_any()) {
            auto table = TargetTable::start(config_, rescan_interval_);
            if (table) {
                table_ = std::move(*table);
            } else {
                *started_ = tl::unexpected(table.error());
            }
        }
    }
    return *started_;
}

Result<> TargetProcesses::share_maps_with(bpf_map *gpu_processes, bpf_map *gpu_process_filter,
                                          bpf_map *targets) const {
    // The map must exist even if no process is ever entered.
    const auto give = [](bpf_map *map, int fd) {
        return fd >= 0 ? bpf_map__reuse_fd(map, fd) : bpf_map__set_max_entries(map, 1);
    };
    int error = give(gpu_processes, gpu_processes_.processes.get());
    if (error == 0) {
        error = give(gpu_process_filter, gpu_processes_.filter.get());
    }
    if (error == 0) {
        error = give(targets, table_ ? table_->map() : -1);
    }
    return error == 0 ? Result<>() : fail_errno("share the tables of processes to trace", -error);
}

std::string TargetProcesses::describe() const {
    if (config_.all_processes) {
        return "all processes";
    }
    if (names_any()) {
        return config_.gpu_processes ? "GPU processes and those that the configuration names"
                                     : "the processes that the configuration names";
    }
    return config_.gpu_processes ? "GPU processes" : "no process: targets names none";
}

}  // namespace gpusnoop::probes
