// The TCP connections of followed processes, for /api/v1/connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/host_net/host_net.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

// As the kernel's numbers are called: "ESTABLISHED".
[[nodiscard]] std::string_view tcp_state_name(std::uint8_t state);
// "10.0.0.1:443", "[fe80::1]:443".
[[nodiscard]] std::string local_address(const net_addresses &addresses);
[[nodiscard]] std::string remote_address(const net_addresses &addresses);

struct NetConnection {
    net_connection of{};
    processes::ProcessNames process;
};

inline constexpr std::string_view connections_page_name = "connections";

// "connections": docs/api.md describes the parameters and the members. `left_out` were not kept.
[[nodiscard]] ApiPage connections_page(std::vector<NetConnection> all, std::size_t left_out);

}  // namespace gpusnoop::probes
