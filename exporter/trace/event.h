// One traced event of the kernel's side, ready to be written: every name is found, and text is safe
// for a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/trace/call.h"

namespace gpusnoop::trace {

struct Event {
    std::int64_t time_ns = 0;  // since the epoch
    std::optional<std::uint64_t> duration_ns;
    std::uint32_t pid = 0;  // 0: none, or not known; so for the next
    std::uint32_t tid = 0;
    std::uint32_t ppid = 0;
    std::string comm;       // of the process
    std::string container;  // id; empty on the host
    std::string_view kind;  // the key of the next: a literal
    std::string name;
    std::string result = "-";     // in text, where it has a column
    std::vector<Detail> results;  // in JSON
    std::vector<Detail> details;  // in both, by the keys of docs/trace.md
};

}  // namespace gpusnoop::trace
