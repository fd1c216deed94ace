// What of a changed configuration does not take effect while the exporter runs.
#pragma once

#include <string>
#include <vector>

#include "exporter/config/config.h"

namespace gpusnoop::config {

// The keys, as dotted paths in the file's order, of which `wanted` says something else than
// `started`, with which the exporter was started, and that only a restart brings into effect. All
// but log.level, functions.max_functions and functions.groups, and functions.enabled where it was
// true at the start.
[[nodiscard]] std::vector<std::string> keys_for_restart(const Config &started,
                                                        const Config &wanted);

}  // namespace gpusnoop::config
