// The cgroups of followed processes, by the ids that the kernel gives them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/host_net/host_net.h"
#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/host_net/aggregator.h"

struct host_net_bpf;

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

// Looks at the sockets of followed processes, with the iterator of bpf/host_net.
class NetLooks {
public:
    explicit NetLooks(host_net_bpf &skeleton);

    // Passes on each connection once, after it has counted what the connection carried. Of
    // connections that a process has later, all counts.
    Result<> look(const std::vector<FollowedProcesses::Entry> &processes,
                  const std::function<void(const net_connection &)> &use);

private:
    Result<> read(const std::vector<FollowedProcesses::Entry> &processes,
                  const std::function<void(const net_connection &)> &use);
    void note(const ProcessKey &process);
    void forget_gone(const std::vector<FollowedProcesses::Entry> &processes);

    host_net_bpf &skeleton_;
    bool walks_one_process_;  // false: the kernel can only walk all
    std::map<std::uint32_t, std::uint64_t> looked_;
};

}  // namespace gpusnoop::probes
