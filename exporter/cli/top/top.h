// `gpusnoop_exporter top`: shows the GPU programs, or the traced functions, of a running exporter,
// live.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "exporter/base/result.h"
#include "exporter/cli/top/client/access.h"
#include "exporter/cli/top/client/address.h"
#include "exporter/cli/top/table.h"

namespace gpusnoop::top {

struct Options {
    Address address{.host = "127.0.0.1", .port = 19'435, .path = {}};
    Access access = {};
    std::chrono::milliseconds interval = std::chrono::seconds(2);
    std::string telemetry_path = "/metrics";  // of the exporter: programs are read there
    std::optional<Sort> sort;                 // of functions; `errors` also of programs
    std::optional<By> by;                     // empty: programs, or functions if only these have it
    std::optional<std::size_t> rows;          // empty: as many as fit, or 20 in plain tables
    bool once = false;                        // one table, of one interval
    bool batch = false;                       // a table after each interval
};

// Runs until the user quits or a signal ends it: these signals must be blocked. On a terminal it
// draws in place and continues when the exporter does not respond; else it writes plain tables, and
// fails if the first request fails. Errors are sentences.
Result<> run(const Options &options);

}  // namespace gpusnoop::top
