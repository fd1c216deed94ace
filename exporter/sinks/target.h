// Where a sink's events go, and its settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/config/config.h"

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

enum class Events : std::uint8_t {
    slow,           // slow calls, with their details
    all,            // each call of a traced function
    launch_gaps,    // launch gaps that are explained
    out_of_memory,  // programs that were refused GPU memory
    job_reports,    // what GPU processes, containers and Slurm steps used until they ended
};

struct SinkConfig {
    std::string name;  // the value of the label `sink`; at most max_sink_name bytes
    Target target;
    std::set<Events> events = {Events::slow};
    bool entries = false;  // also one event when a call begins; with Events::all only
    // The most bytes that may wait for the receiver; a power of two.
    std::uint32_t queue_bytes = 4U << 20U;
    bool operator==(const SinkConfig &) const = default;
};

inline constexpr std::size_t max_sinks = 16;
inline constexpr std::size_t max_sink_name = 128;

// The block `sinks:` of the configuration.
using SinkConfigs = std::vector<SinkConfig>;

[[nodiscard]] bool want(const SinkConfigs &sinks, Events events);

void read_sinks(config::Section &file, config::Config &config);

}  // namespace gpusnoop::sinks
