// TCP connects and connections of followed processes, and datagrams that their cgroups lost ->
// counters, histograms and gauges. No BPF here: readings of the tables and looks in, families out.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/host_net/host_net.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/host_net/connections.h"

namespace gpusnoop::probes {

struct HostNetFamilies {
    series::Family &connects, &failures, &sent, &received, &segments, &retransmits, &rtt;
};
HostNetFamilies make_host_net_families(series::FamilySet &set);

// Made for each page: the connections that are there, and what cgroups in use have lost.
struct HostNetPageFamilies {
    series::Family &connections, &drops;
};
HostNetPageFamilies make_host_net_page_families(series::FamilySet &set);

struct HostNetProcess : KnownProcess {
    // Counted so far, by role and then by peer, or by how a connect ended.
    std::map<std::pair<std::uint16_t, std::uint16_t>, net_traffic> traffic;
    std::map<std::pair<std::uint16_t, std::uint16_t>, net_connects> connects;
    // At the last look.
    std::array<std::array<std::uint32_t, NET_PEERS>, FOLLOWED_ROLES> connections{};
};

// A cgroup that followed processes are in.
struct NetCgroup {
    std::uint64_t id = 0;
    std::string name;  // of the innermost directory
    std::string container;
    std::string slurm_job;
};

// The value of the label `error`.
[[nodiscard]] std::string connect_failure_name(std::uint16_t failure);
// The value of the label `peer`.
[[nodiscard]] std::string_view peer_name(std::uint32_t peer);

class HostNetAggregator : public CountingAggregator<make_host_net_families, HostNetProcess> {
public:
    explicit HostNetAggregator(const SeriesSettings &settings);

    // The tables; an entry may occur twice. Count the difference from the last reading.
    void on_traffic(const net_key &key, const net_traffic &now);
    void on_connects(const net_key &key, const net_connects &now);
    // Of a cgroup, by its id. Ignored if followed processes are not in it.
    void on_drops(std::uint64_t cgroup, std::uint64_t now);
    // The cgroups that followed processes are in. What others lose is not asked for any more, and
    // begins with 0 again: is_in_use().
    void use_cgroups(const std::vector<NetCgroup> &cgroups, std::chrono::nanoseconds now);
    [[nodiscard]] bool is_in_use(std::uint64_t cgroup) const;

    // A look at all connections: begin_look(), then each. At most `keep` of them are kept.
    void begin_look();
    void on_connection(const net_connection &connection, std::size_t keep);

    struct Look {
        std::vector<net_connection> connections;
        std::size_t left_out = 0;
    };
    [[nodiscard]] const Look &last_look() const { return look_; }
    [[nodiscard]] std::vector<NetConnection> named_connections();

    void add_page(series::FamilySet &set) const;
    // Forgets the cgroups that have not been in use since.
    void forget_cgroups(std::chrono::nanoseconds since);

private:
    struct Drops {
        NetCgroup cgroup;
        std::uint64_t shown = 0;
        __u64 counted = 0;  // of the kernel's present count
        bool is_in_use = false;
        std::chrono::nanoseconds seen{};
    };

    Look look_;
    std::map<std::uint64_t, Drops> drops_;
};

}  // namespace gpusnoop::probes
