#include "exporter/probes/host_net/connections.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/host_net/aggregator.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;

// What the page is sorted by; the most comes first.
std::uint64_t weight(const net_connection &one, std::string_view order) {
    if (order == "rtt") {
        return one.rtt_us;
    }
    return order == "retransmits" ? one.retransmits : one.sent + one.received;
}

// What the page is made of.
struct ConnectionsState {
    std::vector<NetConnection> all;
    std::size_t left_out;
};

std::string address_of(std::uint16_t family, std::span<const __u8> address, std::uint16_t port) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    (void)::inet_ntop(family, address.data(), text.data(), text.size());
    const std::string host = text.data();
    return (family == AF_INET6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Json seconds_or_null(std::uint32_t microseconds) {
    return microseconds == 0 ? Json() : Json(microseconds / 1e6);
}

Json to_json(const NetConnection &one) {
    const net_connection &connection = one.of;
    Json json = Json::object();
    json["pid"] = connection.tgid;
    processes::add_names(json, one.process);
    json["role"] = followed_role_names.at(connection.role);
    json["local"] = local_address(connection.addresses);
    json["remote"] = remote_address(connection.addresses);
    json["peer"] = peer_name(connection.addresses.peer);
    json["state"] = tcp_state_name(connection.state);
    json["rtt_seconds"] = seconds_or_null(connection.rtt_us);
    json["rtt_deviation_seconds"] = seconds_or_null(connection.rtt_deviation_us);
    json["sent_bytes"] = connection.sent;
    json["received_bytes"] = connection.received;
    json["sent_segments"] = connection.segments;
    json["retransmits"] = connection.retransmits;
    json["congestion_window_segments"] = connection.congestion_window;
    json["send_window_bytes"] = connection.send_window;
    return json;
}

ApiResponse write_connections(const ConnectionsState &state, const ListQuery &query) {
    std::vector<const NetConnection *> selected;
    for (const NetConnection &one : state.all) {
        if (query.wants_process(one.of.tgid, one.process)) {
            selected.push_back(&one);
        }
    }
    const std::string_view order = query.choice("sort");
    std::ranges::stable_sort(selected, std::ranges::greater{},
                             [&](const NetConnection *one) { return weight(one->of, order); });
    std::string text = "{";
    JsonList list(text, connections_page_name, query.limit());
    for (const NetConnection *one : selected) {
        list.add([&] { return to_json(*one); });
    }
    const std::size_t left_out = list.end() + state.left_out;
    return end_page(std::move(text), left_out);
}

}  // namespace

std::string_view tcp_state_name(std::uint8_t state) {
    constexpr std::array<std::string_view, 14> names = {
        "unknown",   "ESTABLISHED", "SYN_SENT",     "SYN_RECV",      "FIN_WAIT1",
        "FIN_WAIT2", "TIME_WAIT",   "CLOSE",        "CLOSE_WAIT",    "LAST_ACK",
        "LISTEN",    "CLOSING",     "NEW_SYN_RECV", "BOUND_INACTIVE"};
    return state < names.size() ? names.at(state) : names.front();
}

std::string local_address(const net_addresses &addresses) {
    return address_of(addresses.family, addresses.local, addresses.local_port);
}

std::string remote_address(const net_addresses &addresses) {
    return address_of(addresses.family, addresses.remote, addresses.remote_port);
}

ApiPage connections_page(std::vector<NetConnection> all, std::size_t left_out) {
    return list_page(connections_page_name,
                     process_parameters(
                         {{"sort", PageParameter::Type::choice, {"bytes", "rtt", "retransmits"}}}),
                     ConnectionsState{std::move(all), left_out}, write_connections);
}

}  // namespace gpusnoop::probes
