// The address of an exporter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop::top {

struct Address {
    std::string host;  // a name or an address; IPv6 without brackets
    std::uint16_t port = 0;
    std::string path;  // in front of the exporter's own paths: empty, or "/prefix"
    bool tls = false;
    std::string unix_path = {};  // a Unix socket, instead of host and port

    // In the form for people: "http://[::1]:19435", "unix:/run/gpusnoop.sock".
    [[nodiscard]] std::string text() const;
    // The URL that the client requests.
    [[nodiscard]] std::string url() const;
};

// "http://127.0.0.1:19435", "https://gpu-node-1", "[::1]:19435", "http://proxy:80/node-1",
// "unix:/run/gpusnoop.sock". The default port is 19435. Errors give the mistake.
[[nodiscard]] Result<Address> parse_address(std::string_view text);

}  // namespace gpusnoop::top
