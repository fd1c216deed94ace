// Where a sink's events go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace gpusnoop::sinks {

enum class TargetType : std::uint8_t {
    file,  // appended to; may be a fifo
    unix_socket,
    tcp,
};

struct Target {
    TargetType type = TargetType::file;
    std::string path{};      // of a file or a Unix socket; absolute
    std::string host{};      // of tcp: a name, or an address without brackets
    std::uint16_t port = 0;  // of tcp
    bool operator==(const Target &) const = default;
};

inline constexpr std::size_t max_file_path = 4095;   // bytes, PATH_MAX without its NUL
inline constexpr std::size_t max_socket_path = 107;  // bytes, sun_path without its NUL

// "file:/var/log/events.jsonl", "unix:/run/events.sock", "tcp:[::1]:9000".
[[nodiscard]] std::string to_text(const Target &target);

// "collector:9000", "10.0.0.1:9000" or "[::1]:9000".
[[nodiscard]] Result<Target> parse_tcp(std::string_view address);

// A path of a file or a Unix socket. The error sentence gives the mistake.
[[nodiscard]] Result<Target> parse_path(TargetType type, std::string_view path);

}  // namespace gpusnoop::sinks
