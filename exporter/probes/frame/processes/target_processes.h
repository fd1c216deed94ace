// Selects the processes that the syscall and fence probes trace: GPU processes and those listed
// under `targets:`; and gives the host probes the processes that they follow.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/probes/frame/processes/cuda_facts.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/target_settings.h"

struct bpf_map;

namespace gpusnoop::probes {

// Whether processes are followed, for the host probes.
struct Following {
    bool enabled = false;
    bool descendants = true;
    // Neither this process nor its children are followed because of their name or their parents;
    // 0: this process itself.
    std::uint32_t except = 0;
    // GPU processes are in the CUDA probe's table, but its programs do not enter them here.
    bool looks_for_gpu_processes = false;
};

// The maps of bpf/host_time/accounts.bpf.h and the thread state of the CUDA probe; -1: not made.
struct TimeMaps {
    int threads = -1;
    int times = -1;
    int past = -1;
    int gaps = -1;
    int file_waits = -1;
    int devices = -1;
    // The label `gpu` of a process's device (struct host_device_key); nothing: the CUDA probe does
    // not know the process. For the aggregating thread.
    std::function<std::optional<std::string>(std::uint32_t tgid, std::int32_t device)> gpu_name =
        nullptr;
    // How many launches of the process were not observed, for each that was. For the same thread.
    std::function<double(std::uint32_t tgid)> unseen_launches = nullptr;
};

// One for all probes. A process that matches by comm or container is found when it executes another
// program, or when a parent that matches forks it. If it takes its name later, the next rescan
// finds it.
class TargetProcesses {
public:
    TargetProcesses(TargetsConfig config, std::chrono::nanoseconds rescan_interval,
                    Following following = {});
    ~TargetProcesses();
    TargetProcesses(const TargetProcesses &) = delete;
    TargetProcesses &operator=(const TargetProcesses &) = delete;

    // The CUDA probe's table of processes and its filter (bpf/lib/processes/process_filter.bpf.h),
    // for probes that call start() later; the descriptors are copied.
    Result<> share_gpu_processes(int table_fd, int filter_fd);

    // Whether the CUDA probe's programs enter GPU processes into the table of followed processes,
    // too; it then shares these maps, before any probe calls follow(), and how the functions are
    // called that its programs name by numbers.
    [[nodiscard]] bool follows_gpu_processes() const {
        return following_.enabled && config_.gpu_processes;
    }
    Result<> share_followed(const FollowMaps &maps, CudaFunctionName function_name);
    // Null if it does not.
    [[nodiscard]] CudaFunctionName cuda_function_name() const { return function_name_; }

    // The accounts of launching threads, which the CUDA probe's programs make.
    Result<> share_times(const TimeMaps &maps);
    [[nodiscard]] TimeMaps times() const {
        return {time_maps_[0].get(), time_maps_[1].get(), time_maps_[2].get(), time_maps_[3].get(),
                time_maps_[4].get(), time_maps_[5].get(), gpu_name_,           unseen_launches_};
    }

    // For a profile beside the probes: `other` gets the CUDA probe's table of GPU processes, and
    // the calls that threads are inside of. Fails if there is no process to follow.
    Result<> share_calls_with(TargetProcesses &other) const;

    // The CUDA probe hands over each end of a GPU process when it has counted what the process
    // held: at the end, or later. For the aggregating thread.
    using OnGpuProcessEnd = std::function<void(const GpuProcessEnd &)>;
    void on_gpu_process_end(OnGpuProcessEnd use) { on_gpu_process_end_ = std::move(use); }
    void gpu_process_ended(const GpuProcessEnd &end) const { on_gpu_process_end_(end); }

    // Starts to follow processes, the first time; that takes start(), too. They live as long as
    // this.
    Result<FollowedProcesses *> follow();

    // If the configuration names processes, loads the programs that follow them; the first call
    // does so for all probes. Matching processes that run already are targets when this returns.
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
    [[nodiscard]] std::uint64_t changes() const;

    // "GPU processes", "everything" or the like.
    [[nodiscard]] std::string describe() const;
    // The same of followed processes.
    [[nodiscard]] std::string describe_followed() const;

private:
    struct Tracker;

    [[nodiscard]] bool names_any() const;
    [[nodiscard]] std::uint32_t kinds() const;
    Result<> share_maps_with(bpf_map *gpu_processes, bpf_map *gpu_process_filter,
                             bpf_map *targets) const;

    const TargetsConfig config_;
    const std::chrono::nanoseconds rescan_interval_;
    const Following following_;
    Fd gpu_processes_;
    Fd gpu_process_filter_;
    std::array<Fd, 5> follow_maps_;  // of the CUDA probe
    std::array<Fd, 6> time_maps_;    // the same
    CudaFunctionName function_name_ = nullptr;
    std::function<std::optional<std::string>(std::uint32_t, std::int32_t)> gpu_name_;
    std::function<double(std::uint32_t)> unseen_launches_;
    OnGpuProcessEnd on_gpu_process_end_ = [](const auto &) {};
    std::mutex mutex_;  // start()
    std::optional<Result<>> started_;
    std::unique_ptr<Tracker> tracker_;
    std::unique_ptr<FollowedProcesses> followed_;  // uses the others
};

using TargetProcessesPtr = std::shared_ptr<TargetProcesses>;

}  // namespace gpusnoop::probes
