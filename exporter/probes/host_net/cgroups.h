// The cgroups of followed processes, by the ids that the kernel gives them.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/host_net/aggregator.h"

namespace gpusnoop::probes {

// The path in the v2 hierarchy that /proc/PID/cgroup names. Empty: none, one that cannot be seen
// from here, or the uppermost, which is everything on the node and not the job.
[[nodiscard]] std::string unified_path(std::string_view cgroups);

class NetCgroups {
public:
    // `root` is where the host's cgroups are mounted. A process is looked up again after `keep`.
    NetCgroups(std::string root, std::chrono::nanoseconds keep)
        : root_(std::move(root)), keep_(keep) {}

    // The cgroups of the processes, each once.
    std::vector<NetCgroup> of(const std::vector<FollowedProcesses::Entry> &processes,
                              FollowedProcesses &followed, std::chrono::nanoseconds now);

private:
    struct Place {
        std::optional<NetCgroup> cgroup;
        std::chrono::nanoseconds read{};
    };

    [[nodiscard]] std::optional<NetCgroup> find(std::uint32_t tgid) const;

    std::string root_;
    std::chrono::nanoseconds keep_;
    std::map<ProcessKey, Place> places_;
};

}  // namespace gpusnoop::probes
