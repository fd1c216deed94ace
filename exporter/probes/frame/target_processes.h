// Selects the processes that the syscall and fence probes trace: GPU processes and those listed
// under `targets:`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/probes/frame/target_settings.h"

struct bpf_map;

namespace gpusnoop::probes {

// One for all probes. A process that matches by comm or container is found when it executes another
// program, or when a parent that matches forks it. If it takes its name later, the next rescan
// finds it.
class TargetProcesses {
public:
    TargetProcesses(TargetsConfig config, std::chrono::nanoseconds rescan_interval);
    ~TargetProcesses();
    TargetProcesses(const TargetProcesses &) = delete;
    TargetProcesses &operator=(const TargetProcesses &) = delete;

    // The CUDA probe's table of processes and its filter (bpf/lib/process_filter.bpf.h), for probes
    // that call start() later; the descriptors are copied.
    Result<> share_gpu_processes(int table_fd, int filter_fd);

    // If the configuration names processes, loads the programs that follow them; the first call
    // does so for all probes. Matching processes that run already are targets when this returns.
    Result<> start();

    // Makes a skeleton with the maps of bpf/lib/target.bpf.h use ours: after open, before load.
    template <typename Skeleton>
    Result<> share_maps_with(Skeleton &skeleton) {
        skeleton.rodata->target_kinds = kinds();
        return share_maps_with(skeleton.maps.cuda_procs, skeleton.maps.cuda_filter,
                               skeleton.maps.target_procs);
    }

    // "GPU processes", "everything" or the like.
    [[nodiscard]] std::string describe() const;

private:
    struct Tracker;

    [[nodiscard]] bool names_any() const;
    [[nodiscard]] std::uint32_t kinds() const;
    Result<> share_maps_with(bpf_map *gpu_processes, bpf_map *gpu_process_filter,
                             bpf_map *targets) const;

    const TargetsConfig config_;
    const std::chrono::nanoseconds rescan_interval_;
    Fd gpu_processes_;
    Fd gpu_process_filter_;
    std::mutex mutex_;  // start()
    std::optional<Result<>> started_;
    std::unique_ptr<Tracker> following_;
};

using TargetProcessesPtr = std::shared_ptr<TargetProcesses>;

}  // namespace gpusnoop::probes
