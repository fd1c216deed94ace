// Where a server listens, in the form that Prometheus programs use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop {

// `host` is an IPv4 or IPv6 address without brackets, or empty for all addresses of both families.
// With port 0, the kernel chooses the port. A Unix socket has only `path`, which is absolute and
// fits into a sockaddr_un.
struct ListenAddress {
    std::string host;
    bool ipv6 = false;
    std::uint16_t port = 0;
    std::string unix_path = {};
    bool operator==(const ListenAddress &) const = default;
};

// ":19435", "127.0.0.1:19435", "[::1]:19435", "localhost:19435" (which is 127.0.0.1) or
// "unix:/run/gpusnoop/http.sock".
[[nodiscard]] Result<ListenAddress> parse_listen_address(std::string_view text);

// The first address that repeats an earlier one, if any: only one of them can be listened on. Port
// 0 is another port each time.
[[nodiscard]] std::optional<std::size_t> find_repeated_address(
    std::span<const std::string> addresses);

}  // namespace gpusnoop
