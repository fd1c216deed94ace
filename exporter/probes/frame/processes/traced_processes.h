// The processes that probes trace, for all probes of the exporter or of one trace.
//
// GPU processes come from the probe `cuda` (cuda_shared.h). The configuration can name others
// (target_processes.h), which the probes syscall and fence trace. The probes of the host group
// follow both, and what they start (followed_processes.h). Each of these knows only those before
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "exporter/base/result.h"
#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/target_processes.h"
#include "exporter/probes/frame/processes/target_table.h"

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

class TracedProcesses {
public:
    TracedProcesses(TargetsConfig config, std::chrono::nanoseconds rescan_interval,
                    Following following = {})
        : following_(following),
          rescan_interval_(rescan_interval),
          targets_(std::move(config), rescan_interval, cuda_.gpu_processes) {}
    TracedProcesses(const TracedProcesses &) = delete;
    TracedProcesses &operator=(const TracedProcesses &) = delete;

    [[nodiscard]] CudaShared &cuda() { return cuda_; }
    [[nodiscard]] const CudaShared &cuda() const { return cuda_; }
    [[nodiscard]] TargetProcesses &targets() { return targets_; }
    [[nodiscard]] const TargetProcesses &targets() const { return targets_; }

    // Whether the CUDA probe's programs enter GPU processes into the table of followed processes,
    // too; it then shares these maps before any probe calls follow().
    [[nodiscard]] bool follows_gpu_processes() const {
        return following_.enabled && targets_.has_gpu_processes();
    }

    // Starts to follow processes, the first time; that starts the targets, too. They live as long
    // as this.
    Result<FollowedProcesses *> follow();

    // "GPU processes, and what they start" or the like.
    [[nodiscard]] std::string describe_followed() const;

private:
    const Following following_;
    const std::chrono::nanoseconds rescan_interval_;
    CudaShared cuda_;
    TargetProcesses targets_;                      // uses cuda_
    std::unique_ptr<FollowedProcesses> followed_;  // uses the others
};

using TracedProcessesPtr = std::shared_ptr<TracedProcesses>;

}  // namespace gpusnoop::probes
