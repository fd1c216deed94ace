// The files that the configuration excludes from all probes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exporter/discovery/library.h"

namespace gpusnoop::probes {

// The reason why a file is excluded, or nothing. `exclude` has globs of paths, and build ids after
// "build_id:". A file that is not open yet is checked by its path only.
[[nodiscard]] std::function<std::optional<std::string>(const discovery::Library &)> exclusion(
    const std::vector<std::string> &exclude);

}  // namespace gpusnoop::probes
