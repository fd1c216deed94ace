// Targets for events besides the page: files and sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/sinks/target.h"

namespace gpusnoop::sinks {

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
