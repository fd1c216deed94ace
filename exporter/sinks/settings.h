// Where events go besides the page: files and sockets that somebody reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exporter/sinks/target.h"

namespace gpusnoop::config {

enum class SinkEvents : std::uint8_t {
    slow,  // slow calls, with what is known of them
    all,   // each call of a function that is traced
};

struct Sink {
    std::string name;  // the value of the label `sink`; at most max_sink_name bytes
    sinks::Target target;
    SinkEvents events = SinkEvents::slow;
    bool entries = false;  // one more event of each call, when it begins; of SinkEvents::all only
    // What may wait for a receiver; a power of two.
    std::uint32_t queue_bytes = 4U << 20U;
    bool operator==(const Sink &) const = default;
};

inline constexpr std::size_t max_sinks = 16;
inline constexpr std::size_t max_sink_name = 128;

class Value;

// Reads the list of sinks. Wrong ones are left out, and reported.
[[nodiscard]] std::vector<Sink> read_sinks(const Value &list);

}  // namespace gpusnoop::config
