#include "exporter/probes/host_net/connections.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "exporter/base/glob.h"
#include "exporter/base/text.h"
#include "exporter/probes/frame/followed_processes.h"
#include "exporter/probes/frame/json_objects.h"
#include "exporter/probes/host_net/aggregator.h"

namespace gpusnoop::probes {

namespace {

using Json = nlohmann::ordered_json;

// What the document is sorted by; the most comes first.
struct Order {
    std::string_view name;
    std::uint64_t (*weight)(const net_connection &);
};
constexpr std::array<Order, 3> orders = {
    {{"bytes", [](const net_connection &one) -> std::uint64_t { return one.sent + one.received; }},
     {"rtt", [](const net_connection &one) -> std::uint64_t { return one.rtt_us; }},
     {"retransmits", [](const net_connection &one) -> std::uint64_t { return one.retransmits; }}}};

struct ConnectionsQuery : PidAndLimit {
    std::string comm = "*";
    Order order = orders.front();

    [[nodiscard]] bool asks_for(const NetConnection &one) const {
        return has(one.of.tgid) && matches_glob(comm, one.process.comm);
    }
};

Result<ConnectionsQuery> read_connections_query(const QueryParameters &parameters) {
    ConnectionsQuery query;
    for (const auto &[name, value] : parameters) {
        if (name == "comm") {
            query.comm = value;
        } else if (name == "sort") {
            const auto *const found = std::ranges::find(orders, value, &Order::name);
            if (found == orders.end()) {
                return fail(in_quotes(name) + " must be rtt, retransmits or bytes");
            }
            query.order = *found;
        } else if (const auto is_one = query.read(name, value); !is_one) {
            return tl::unexpected(is_one.error());
        } else if (!*is_one) {
            return fail(in_quotes(name) +
                        " is not a parameter of this page; it has pid, comm, sort and limit");
        }
    }
    return query;
}

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

std::string connections_text(const std::vector<NetConnection> &all, const ConnectionsQuery &query,
                             std::size_t left_out) {
    std::vector<const NetConnection *> selected;
    for (const NetConnection &one : all) {
        if (query.asks_for(one)) {
            selected.push_back(&one);
        }
    }
    std::ranges::stable_sort(selected, std::ranges::greater{},
                             [&](const NetConnection *one) { return query.order.weight(one->of); });
    std::string text = R"({"connections":[)";
    JsonObjects objects(text);
    for (std::size_t shown = 0; const NetConnection *one : selected) {
        const bool fits = shown < query.limit && objects.add(to_json(*one));
        (fits ? shown : left_out)++;
    }
    return text + R"(],"connections_left_out":)" + std::to_string(left_out) + R"(,"truncated":)" +
           (left_out > 0 ? "true}\n" : "false}\n");
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

ApiResource connections_document(std::vector<NetConnection> all, std::size_t left_out) {
    const auto shared = std::make_shared<const std::vector<NetConnection>>(std::move(all));
    return {std::string(connections_document_name),
            [shared, left_out](const QueryParameters &parameters) -> Result<ApiResponse> {
                const auto query = read_connections_query(parameters);
                if (!query) {
                    return tl::unexpected(query.error());
                }
                return ApiResponse{"application/json", connections_text(*shared, *query, left_out)};
            }};
}

}  // namespace gpusnoop::probes
