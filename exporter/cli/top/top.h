// `gpusnoop_exporter top`: what the traced functions of a running exporter do, live.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "exporter/base/result.h"
#include "exporter/cli/top/access.h"
#include "exporter/cli/top/address.h"
#include "exporter/cli/top/table.h"

namespace gpusnoop::top {

struct Options {
    Address address{.host = "127.0.0.1", .port = 19'435, .path = {}};
    Access access = {};
    std::chrono::milliseconds interval = std::chrono::seconds(2);
    Sort sort = Sort::calls;
    std::optional<std::size_t> rows;  // without: what fits, or 20 in plain tables
    bool once = false;                // one table, of one interval
    bool batch = false;               // a table after each interval
};

// Runs until the person quits, or a signal asks for it: those must be blocked. On a terminal it
// draws in place and goes on when the exporter cannot be asked; else it writes plain tables, and
// fails if the first answer is none. Errors are sentences.
Result<> run(const Options &options);

}  // namespace gpusnoop::top
