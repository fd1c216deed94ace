// Names of code that a program makes while it runs: /tmp/perf-PID.map, which Python (-X perf), Java
// and Node.js write for perf.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "exporter/base/work_limit.h"
#include "exporter/symbols/stacks/file_cache.h"

namespace gpusnoop::symbols {

// Reads the map behind the descriptor, whose lines are "START SIZE NAME", both in hexadecimal. The
// functions that the addresses are in; of two at one address, the later line's, as code that is
// given up makes room for other code. Keeps no more of the file. Trusts nothing in it: lines that
// are none are skipped, and what is behind the limit of the work.
[[nodiscard]] std::map<std::uint64_t, FunctionAt> functions_in_perf_map(
    int file, std::span<const std::uint64_t> addresses, const WorkLimit &limit = {});

// The path of a process's map, in its own mount namespace.
[[nodiscard]] std::string perf_map_path(std::uint32_t tgid);

}  // namespace gpusnoop::symbols
