// `gpusnoop_exporter trace --in-flight`: prints the calls in flight of a running exporter, once.
#pragma once

#include <string>
#include <string_view>

#include "exporter/base/result.h"
#include "exporter/cli/top/client/access.h"
#include "exporter/cli/top/client/address.h"

namespace gpusnoop::top {

struct InFlightOptions {
    Address address{.host = "127.0.0.1", .port = 19'435, .path = {}};
    Access access = {};
    bool json = false;  // an object for each line
};

// Asks the exporter and writes to stdout. Errors are sentences.
Result<> print_in_flight(const InFlightOptions &options);

// The lines of an answer of /api/v1/in_flight. For text: a line for each call, and one more for
// each frame of its stack.
[[nodiscard]] Result<std::string> in_flight_lines(std::string_view answer, bool json);

}  // namespace gpusnoop::top
