// Where an exporter is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop::top {

struct Address {
    std::string host;  // a name or an address; of IPv6 without brackets
    std::uint16_t port = 0;
    std::string path;  // in front of the exporter's own paths: empty, or "/prefix"
    bool tls = false;
    std::string unix_path = {};  // of a Unix socket, which takes the place of host and port

    // As a person writes it: "http://[::1]:19435", "unix:/run/gpusnoop.sock".
    [[nodiscard]] std::string text() const;
    // As a client asks for it.
    [[nodiscard]] std::string url() const;
};

// "http://127.0.0.1:19435", "https://gpu-node-1", "[::1]:19435", "http://proxy:80/node-1",
// "unix:/run/gpusnoop.sock". Without a port it is 19435. Errors say what is wrong with it.
[[nodiscard]] Result<Address> parse_address(std::string_view text);

}  // namespace gpusnoop::top
