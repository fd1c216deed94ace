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
    std::string path;  // what comes before the exporter's own paths: empty, or "/prefix"

    // As a person writes it: "http://[::1]:19435".
    [[nodiscard]] std::string text() const;
    // As it is in a Host header.
    [[nodiscard]] std::string host_and_port() const;
};

// "http://127.0.0.1:19435", "http://gpu-node-1", "[::1]:19435", "http://proxy:80/node-1". Without a
// port it is 19435. Errors say what is wrong with it.
[[nodiscard]] Result<Address> parse_address(std::string_view text);

}  // namespace gpusnoop::top
