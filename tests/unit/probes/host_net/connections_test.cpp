#include "exporter/probes/host_net/connections.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/host_net/probe.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

net_addresses ipv4() {
    net_addresses addresses{};
    addresses.family = 2;
    addresses.local[0] = 10;
    addresses.local[3] = 1;
    addresses.remote[0] = 10;
    addresses.remote[3] = 2;
    addresses.local_port = 40'000;
    addresses.remote_port = 443;
    addresses.peer = NET_REMOTE;
    return addresses;
}

NetConnection connections_connection_of(std::uint32_t pid, std::uint64_t sent, std::uint32_t rtt_us,
                                        std::uint32_t retransmits) {
    NetConnection one;
    one.of.tgid = pid;
    one.of.state = 1;
    one.of.sent = sent;
    one.of.rtt_us = rtt_us;
    one.of.retransmits = retransmits;
    one.of.addresses = ipv4();
    one.process.comm = "prog" + std::to_string(pid);
    return one;
}

std::vector<std::uint32_t> pids_of(const QueryParameters &query, std::size_t left_out = 0) {
    const auto document = connections_page(
        {connections_connection_of(1, 5, 300, 0), connections_connection_of(2, 9, 100, 1),
         connections_connection_of(3, 1, 200, 7)},
        4);
    const auto answer = document.write(query);
    REQUIRE(answer);
    const auto json = nlohmann::json::parse(answer->text);
    CHECK(json.at("left_out") == 4 + left_out);
    std::vector<std::uint32_t> pids;
    for (const auto &one : json.at("connections")) {
        pids.push_back(one.at("pid"));
    }
    return pids;
}

}  // namespace

TEST_CASE("connections are sorted by what is asked for") {
    CHECK(pids_of({}) == std::vector<std::uint32_t>{2, 1, 3});
    CHECK(pids_of({{"sort", "rtt"}}) == std::vector<std::uint32_t>{1, 3, 2});
    CHECK(pids_of({{"sort", "retransmits"}, {"limit", "2"}}, 1) ==
          std::vector<std::uint32_t>{3, 2});
    CHECK(pids_of({{"pid", "3"}}) == std::vector<std::uint32_t>{3});
    CHECK(pids_of({{"comm", "prog[12]"}, {"limit", "1"}}, 1) == std::vector<std::uint32_t>{2});
    const auto document = connections_page({}, 0);
    CHECK_FALSE(document.write({{"sort", "age"}}));
    CHECK_FALSE(document.write({{"limit", "x"}}));
    CHECK_FALSE(document.write({{"port", "1"}}));
}

TEST_CASE("a list of very many connections is cut where it gets too long", "[bulk]") {
    const auto document = connections_page(
        std::vector<NetConnection>(40'000, connections_connection_of(1, 5, 300, 0)), 0);
    const auto answer = document.write({});
    REQUIRE(answer);
    CHECK(answer->text.size() <= max_list_page_bytes);
    const auto json = nlohmann::json::parse(answer->text);
    CHECK(json.at("truncated") == true);
    CHECK(json.at("connections").size() + json.at("left_out").get<std::size_t>() == 40'000);
}

TEST_CASE("a connection has its addresses, and null for what is not known") {
    const auto answer = connections_page({connections_connection_of(1, 5, 0, 0)}, 0).write({});
    const auto one = nlohmann::json::parse(answer->text).at("connections").at(0);
    CHECK(one.at("local") == "10.0.0.1:40000");
    CHECK(one.at("remote") == "10.0.0.2:443");
    CHECK(one.at("peer") == "remote");
    CHECK(one.at("state") == "ESTABLISHED");
    CHECK(one.at("rtt_seconds").is_null());
    CHECK(one.at("sent_bytes") == 5);
    net_addresses six{};
    six.family = 10;
    six.remote[15] = 1;
    six.remote_port = 80;
    CHECK(remote_address(six) == "[::1]:80");
    CHECK(tcp_state_name(200) == "unknown");
}

TEST_CASE("a change of state is a line with both states") {
    net_state_record record{};
    record.head = {.at_ns = 2'000, .since_ns = 10, .tgid = 7, .type = 0};
    record.role = FOLLOWED_WORKER;
    record.error = ECONNREFUSED;
    record.old_state = 2;
    record.new_state = 7;
    record.in_state_ns = 500;
    record.addresses = ipv4();
    const auto event = trace::event_of(record, {}, 1'000);
    CHECK(event.time_ns == 3'000);
    CHECK(event.pid == 7);
    CHECK(event.name == "CLOSE");
    using trace::Value;
    CHECK(event.details == std::vector<trace::Detail>{{"role", "worker"},
                                                      {"old_state", "SYN_SENT"},
                                                      {"in_state_ns", std::uint64_t{500}},
                                                      {"local", "10.0.0.1:40000"},
                                                      {"remote", "10.0.0.2:443"},
                                                      {"peer", "remote"},
                                                      {"error", "ECONNREFUSED"}});
}
