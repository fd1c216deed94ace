// Selects the processes that the syscall and fence probes trace: GPU processes and those listed
// under `targets:`.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "exporter/base/result.h"
#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/probes/frame/processes/target_table.h"

struct bpf_map;

namespace gpusnoop::probes {

// One for all probes.
class TargetProcesses {
public:
    // `gpu_processes` must outlive it. Programs whose maps are shared before the CUDA probe has
    // filled this in see no GPU processes.
    TargetProcesses(TargetsConfig config, std::chrono::nanoseconds rescan_interval,
                    const GpuProcessMaps &gpu_processes);

    // If the configuration names processes, begins to keep their table; the first call does so for
    // all probes. Matching processes that run already are targets when this returns.
    Result<> start();

    // Makes a skeleton with the maps of bpf/lib/processes/target.bpf.h use ours: after open, before
    // load.
    template <typename Skeleton>
    Result<> share_maps_with(Skeleton &skeleton) const {
        skeleton.rodata->target_kinds = kinds();
        return share_maps_with(skeleton.maps.cuda_procs, skeleton.maps.cuda_filter,
                               skeleton.maps.target_procs);
    }

    // Grows whenever a process becomes a target or ceases to be one, but for what the programs see
    // themselves. For any thread.
    [[nodiscard]] std::uint64_t changes() const { return table_ ? table_->changes() : 0; }

    [[nodiscard]] bool has_gpu_processes() const { return config_.gpu_processes; }
    [[nodiscard]] bool names_any() const { return probes::names_any(config_); }
    // As in bpf/lib/processes/target.h: which processes are targets.
    [[nodiscard]] std::uint32_t kinds() const;

    // "GPU processes", "everything" or the like.
    [[nodiscard]] std::string describe() const;

private:
    Result<> share_maps_with(bpf_map *gpu_processes, bpf_map *gpu_process_filter,
                             bpf_map *targets) const;

    const TargetsConfig config_;
    const std::chrono::nanoseconds rescan_interval_;
    const GpuProcessMaps &gpu_processes_;
    std::mutex mutex_;  // start()
    std::optional<Result<>> started_;
    std::unique_ptr<TargetTable> table_;  // null: the configuration names none
};

}  // namespace gpusnoop::probes
