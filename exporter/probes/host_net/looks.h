// Looks at the sockets of followed processes, with the iterator of bpf/host_net.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "bpf/host_net/host_net.h"
#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/probes/frame/processes/followed_processes.h"

struct host_net_bpf;

namespace gpusnoop::probes {

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
