#include "exporter/probes/host_net/aggregator.h"

#include <algorithm>

#include "exporter/base/text/text.h"
#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/process_counts.h"
#include "exporter/symbols/names/syscall_names.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

// In microseconds: the machine itself, a rack, a building, a continent.
const std::vector<std::uint64_t> rtt_bounds = {
    20, 50, 100, 200, 500, 1'000, 2'000, 5'000, 10'000, 20'000, 50'000, 100'000, 500'000};

}  // namespace

HostNetFamilies make_host_net_families(series::FamilySet &set) {
    const std::vector<series::Label> role = {{"role"}};
    const std::vector<series::Label> role_and_peer = {{"role"}, {"peer", true}};
    return {
        .connects = set.histogram("host_tcp_connect_duration_seconds",
                                  "Duration of successful TCP connects of followed processes, "
                                  "from the first SYN.",
                                  role, NET_CONNECT_BOUNDS, 1e9),
        .failures = set.counter("host_tcp_connect_failures_total",
                                "Failed TCP connects of followed processes, by error; given_up: "
                                "the program closed the socket before the connect completed.",
                                {{"role"}, {"error"}}),
        .sent = set.counter("host_tcp_sent_bytes_total",
                            "Bytes sent over TCP connections of followed processes, without "
                            "retransmissions.",
                            role_and_peer),
        .received = set.counter("host_tcp_received_bytes_total",
                                "Bytes received over TCP connections of followed processes.",
                                role_and_peer),
        .segments = set.counter("host_tcp_sent_segments_total",
                                "TCP segments sent over connections of followed processes, "
                                "including empty and retransmitted ones.",
                                role_and_peer),
        .retransmits = set.counter("host_tcp_retransmits_total",
                                   "TCP segments retransmitted over connections of followed "
                                   "processes.",
                                   role_and_peer),
        .rtt = set.histogram("host_tcp_rtt_seconds",
                             "Smoothed round-trip time of TCP connections that transferred bytes "
                             "since the last reading, one observation per connection and reading.",
                             role_and_peer, rtt_bounds, 1e6),
    };
}

HostNetPageFamilies make_host_net_page_families(series::FamilySet &set) {
    return {
        .connections = set.gauge("host_tcp_connections",
                                 "TCP connections of followed processes at the last reading.",
                                 {{"role"}, {"peer", true}}),
        .drops =
            set.add({.name = "gpusnoop_host_udp_receive_drops_total",
                     .help = "UDP datagrams dropped because the receive buffer of a socket was "
                             "full, by the cgroup in which the socket was created, if the cgroup "
                             "has followed processes.",
                     .type = series::Type::counter,
                     .labels = {{"cgroup"}, {"container_id"}, {"slurm_job_id"}}}),
    };
}

std::string connect_failure_name(std::uint16_t failure) {
    return failure == NET_GIVEN_UP ? "given_up" : std::string(errno_name(failure));
}

std::string_view peer_name(std::uint32_t peer) {
    return peer == NET_LOOPBACK ? "loopback" : "remote";
}

HostNetAggregator::HostNetAggregator(const SeriesSettings &settings)
    : CountingAggregator(settings, counts_grace) {}

void HostNetAggregator::on_traffic(const net_key &key, const net_traffic &now) {
    if (key.role >= FOLLOWED_ROLES || key.which >= NET_PEERS) {
        return;
    }
    HostNetProcess &process = processes_.of({key.tgid, key.since_ns});
    net_traffic &counted = process.traffic[{key.role, key.which}];
    auto values = process.labels;
    values.emplace_back(followed_role_names.at(key.role));
    values.emplace_back(peer_name(key.which));
    const std::array<series::Family *, NET_SUMS> families = {&of_.sent, &of_.received,
                                                             &of_.segments, &of_.retransmits};
    for (std::size_t i = 0; i < families.size(); i++) {
        series::Family &family = *families.at(i);
        family.add(family.slot(process.owner, values), grown(now.of[i], counted.of[i]));
    }
}

void HostNetAggregator::on_connects(const net_key &key, const net_connects &now) {
    if (key.role >= FOLLOWED_ROLES) {
        return;
    }
    HostNetProcess &process = processes_.of({key.tgid, key.since_ns});
    net_connects &counted = process.connects[{key.role, key.which}];
    auto values = process.labels;
    values.emplace_back(followed_role_names.at(key.role));
    const std::uint64_t count = grown(now.count, counted.count);
    if (key.which != 0) {
        values.push_back(connect_failure_name(key.which));
        of_.failures.add(of_.failures.slot(process.owner, values), count);
        return;
    }
    std::array<std::uint64_t, NET_CONNECT_BUCKETS + 1> added{};
    for (std::size_t i = 0; i < NET_CONNECT_BUCKETS; i++) {
        added.at(i) = grown(now.durations[i], counted.durations[i]);
    }
    added[NET_CONNECT_BUCKETS] = grown(now.nanoseconds, counted.nanoseconds);
    of_.connects.observe_all(of_.connects.slot(process.owner, values), added);
}

void HostNetAggregator::use_cgroups(const std::vector<NetCgroup> &cgroups, nanoseconds now) {
    for (auto &[id, drops] : drops_) {
        drops.is_in_use = false;
    }
    for (const NetCgroup &cgroup : cgroups) {
        Drops &drops = drops_[cgroup.id];
        drops.cgroup = cgroup;
        drops.is_in_use = true;
        drops.seen = now;
    }
    for (auto &[id, drops] : drops_) {
        if (!drops.is_in_use) {
            drops.counted = 0;
        }
    }
}

bool HostNetAggregator::is_in_use(std::uint64_t cgroup) const {
    const auto found = drops_.find(cgroup);
    return found != drops_.end() && found->second.is_in_use;
}

void HostNetAggregator::on_drops(std::uint64_t cgroup, std::uint64_t now) {
    if (const auto found = drops_.find(cgroup); found != drops_.end() && found->second.is_in_use) {
        found->second.shown += grown(now, found->second.counted);
    }
}

void HostNetAggregator::forget_cgroups(nanoseconds since) {
    std::erase_if(drops_, [&](const auto &one) { return one.second.seen < since; });
}

void HostNetAggregator::begin_look() {
    processes_.for_each([](HostNetProcess &process) { process.connections = {}; });
    look_ = {};
}

void HostNetAggregator::on_connection(const net_connection &connection, std::size_t keep) {
    if (connection.role >= FOLLOWED_ROLES || connection.addresses.peer >= NET_PEERS) {
        return;
    }
    HostNetProcess &process = processes_.of({connection.tgid, connection.since_ns});
    process.connections.at(connection.role).at(connection.addresses.peer)++;
    if (look_.connections.size() < keep) {
        look_.connections.push_back(connection);
    } else {
        look_.left_out++;
    }
    if (connection.has_traffic == 0 || connection.rtt_us == 0) {
        return;
    }
    auto values = process.labels;
    values.emplace_back(followed_role_names.at(connection.role));
    values.emplace_back(peer_name(connection.addresses.peer));
    of_.rtt.observe(of_.rtt.slot(process.owner, values), connection.rtt_us);
}

std::vector<NetConnection> HostNetAggregator::named_connections() {
    std::vector<NetConnection> all;
    all.reserve(look_.connections.size());
    for (const net_connection &one : look_.connections) {
        all.push_back({.of = one, .process = processes_.of({one.tgid, one.since_ns})});
    }
    return all;
}

void HostNetAggregator::add_page(series::FamilySet &set) const {
    const HostNetPageFamilies page = make_host_net_page_families(set);
    processes_.for_each([&](const HostNetProcess &process) {
        for (std::size_t role = 0; role < FOLLOWED_ROLES && !process.ended; role++) {
            for (std::size_t peer = 0; peer < NET_PEERS; peer++) {
                if (const auto count = process.connections.at(role).at(peer); count > 0) {
                    auto values = process.labels;
                    values.emplace_back(followed_role_names.at(role));
                    values.emplace_back(peer_name(static_cast<std::uint32_t>(peer)));
                    page.connections.add(page.connections.slot(1, values), count);
                }
            }
        }
    });
    for (const auto &[id, drops] : drops_) {
        const NetCgroup &cgroup = drops.cgroup;
        page.drops.add(page.drops.slot(1, {to_valid_utf8(cgroup.name, max_label_bytes),
                                           cgroup.container, cgroup.slurm_job}),
                       drops.shown);
    }
}

}  // namespace gpusnoop::probes
