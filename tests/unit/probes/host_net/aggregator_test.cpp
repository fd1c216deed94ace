#include "exporter/probes/host_net/aggregator.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <map>
#include <string>

#include "exporter/probes/frame/registry.h"
#include "exporter/probes/host_net/cgroups.h"
#include "exporter/probes/host_net/probe.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;
using std::chrono::seconds;

namespace {

// By the name without its prefix and the own labels; of histograms, the number of observations.
std::map<std::string, std::uint64_t> values_of(const series::FamilySet &set) {
    std::map<std::string, std::uint64_t> values;
    for (const auto &snapshot : set.snapshots()) {
        for (std::size_t i = 0; i < snapshot.labels.size(); i++) {
            std::string name =
                snapshot.description->name.substr(std::string("gpusnoop_host_").size());
            const auto &labels = *snapshot.labels[i];
            const std::size_t of_process = snapshot.description->labels[0].name == "comm" ? 4 : 0;
            for (std::size_t label = of_process; label < labels.size(); label++) {
                name += " " + labels[label];
            }
            std::uint64_t &value = values[name];
            const auto *const first = snapshot.values.data() + i * snapshot.stride;
            for (std::size_t j = 0; j == 0 || j + 1 < snapshot.stride; j++) {
                value += first[j];
            }
        }
    }
    return values;
}

struct HostNetFixture {
    HostNetAggregator aggregator{{.budget = [](std::string_view) { return 100U; },
                                  .retention = seconds(60),
                                  .look_up = [](ProcessIdentity &) { return true; }}};

    [[nodiscard]] std::map<std::string, std::uint64_t> values() const {
        return values_of(aggregator.families());
    }
    [[nodiscard]] std::map<std::string, std::uint64_t> page() const {
        series::FamilySet set([](std::string_view) { return 100U; }, false);
        aggregator.add_page(set);
        return values_of(set);
    }
};

net_key host_net_key_of(std::uint16_t which, std::uint16_t role = FOLLOWED_WORKER) {
    return {.since_ns = 10, .tgid = 7, .role = role, .which = which};
}

net_connection aggregator_connection_of(std::uint16_t peer, std::uint32_t rtt_us,
                                        bool has_traffic) {
    net_connection one{};
    one.since_ns = 10;
    one.tgid = 7;
    one.role = FOLLOWED_GPU;
    one.state = 1;
    one.has_traffic = has_traffic ? 1 : 0;
    one.addresses.family = 2;
    one.addresses.peer = peer;
    one.rtt_us = rtt_us;
    return one;
}

}  // namespace

TEST_CASE("traffic counts by what came since the last reading, by peer and role") {
    HostNetFixture fixture;
    fixture.aggregator.on_traffic(host_net_key_of(NET_REMOTE), {{100, 50, 9, 1}});
    fixture.aggregator.on_traffic(host_net_key_of(NET_REMOTE), {{80, 50, 8, 1}});  // an older entry
    fixture.aggregator.on_traffic(host_net_key_of(NET_LOOPBACK), {{7, 0, 1, 0}});
    fixture.aggregator.on_traffic(host_net_key_of(NET_PEERS),
                                  {{9, 9, 9, 9}});  // there is no such peer
    fixture.aggregator.on_traffic(host_net_key_of(NET_REMOTE), {{110, 60, 10, 3}});
    const auto values = fixture.values();
    CHECK(values.at("tcp_sent_bytes_total worker remote") == 110);
    CHECK(values.at("tcp_received_bytes_total worker remote") == 60);
    CHECK(values.at("tcp_sent_segments_total worker remote") == 10);
    CHECK(values.at("tcp_retransmits_total worker remote") == 3);
    CHECK(values.at("tcp_sent_bytes_total worker loopback") == 7);
    CHECK(values.size() == 8);
}

TEST_CASE("connects count with their durations, and those that failed by error") {
    HostNetFixture fixture;
    net_connects good{};
    good.count = 5;
    good.nanoseconds = 500;
    good.durations[0] = 4;
    good.durations[NET_CONNECT_BUCKETS - 1] = 1;
    net_connects bad{};
    bad.count = 3;
    fixture.aggregator.on_connects(host_net_key_of(0), good);
    fixture.aggregator.on_connects(host_net_key_of(0), good);
    fixture.aggregator.on_connects(host_net_key_of(ECONNREFUSED), bad);
    fixture.aggregator.on_connects(host_net_key_of(NET_GIVEN_UP), bad);
    const auto values = fixture.values();
    CHECK(values.at("tcp_connect_duration_seconds worker") == 5);
    CHECK(values.at("tcp_connect_failures_total worker ECONNREFUSED") == 3);
    CHECK(values.at("tcp_connect_failures_total worker given_up") == 3);
    CHECK(values.size() == 3);
}

TEST_CASE("a look replaces the one before, and observes connections with traffic") {
    HostNetFixture fixture;
    fixture.aggregator.begin_look();
    fixture.aggregator.on_connection(aggregator_connection_of(NET_REMOTE, 200, true), 2);
    fixture.aggregator.on_connection(aggregator_connection_of(NET_REMOTE, 300, false), 2);
    fixture.aggregator.on_connection(aggregator_connection_of(NET_LOOPBACK, 0, true), 2);
    CHECK(fixture.page() ==
          std::map<std::string, std::uint64_t>{{"tcp_connections gpu remote", 2},
                                               {"tcp_connections gpu loopback", 1}});
    CHECK(fixture.values().at("tcp_rtt_seconds gpu remote") == 1);
    CHECK(fixture.aggregator.last_look().connections.size() == 2);
    CHECK(fixture.aggregator.last_look().left_out == 1);
    CHECK(fixture.aggregator.named_connections().size() == 2);
    fixture.aggregator.begin_look();
    CHECK(fixture.page().empty());
    CHECK(fixture.aggregator.last_look().connections.empty());
}

TEST_CASE("lost datagrams count for cgroups in use") {
    HostNetFixture fixture;
    const NetCgroup job{.id = 5, .name = "job", .container = "c1", .slurm_job = "88"};
    fixture.aggregator.on_drops(5, 3);  // before it is in use
    fixture.aggregator.use_cgroups({job}, seconds(1));
    CHECK(fixture.page().at("udp_receive_drops_total job c1 88") == 0);
    fixture.aggregator.on_drops(5, 3);
    fixture.aggregator.on_drops(6, 100);
    CHECK(fixture.page().at("udp_receive_drops_total job c1 88") == 3);
    CHECK(fixture.page().size() == 1);
    // The kernel's count begins with 0 again once it is in use again.
    fixture.aggregator.use_cgroups({}, seconds(2));
    CHECK_FALSE(fixture.aggregator.is_in_use(5));
    fixture.aggregator.use_cgroups({job}, seconds(3));
    fixture.aggregator.on_drops(5, 2);
    CHECK(fixture.page().at("udp_receive_drops_total job c1 88") == 5);
    fixture.aggregator.forget_cgroups(seconds(3));
    CHECK(fixture.page().size() == 1);
    fixture.aggregator.forget_cgroups(seconds(4));
    CHECK(fixture.page().empty());
}

TEST_CASE("the path of a process in the hierarchy of version 2") {
    CHECK(unified_path("12:memory:/a\n0::/system.slice/x.service\n") == "/system.slice/x.service");
    CHECK(unified_path("0::/\n").empty());
    CHECK(unified_path("3:cpu:/a\n").empty());
    CHECK(unified_path("").empty());
    CHECK(unified_path("0::/../other\n").empty());
    CHECK(unified_path("0::/no end") == "/no end");
}

TEST_CASE("the settings of host_net are read") {
    const auto parse = [](const std::string &text) {
        return config::parse(text, "c", setting_blocks());
    };
    const auto all = parse("host: {net: {enabled: false, look_interval: 3s, max_sockets: 5}}");
    CHECK(all->of<HostNetConfig>() ==
          HostNetConfig{.enabled = false, .look_interval = seconds(3), .max_sockets = 5});
    CHECK_FALSE(parse("host: {net: {look_interval: 500ms}}"));
    CHECK_FALSE(parse("host: {net: {look_interval: 6m}}"));
    CHECK_FALSE(parse("host: {net: {max_sockets: 1048577}}"));
    CHECK_FALSE(parse("host: {net: {sockets: 1}}"));
}
