// The files that the configuration keeps all probes out of.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exporter/discovery/library.h"

namespace gpusnoop::probes {

// Why a file is to be left alone, if it is. `exclude` has globs of paths, and build ids behind
// "build_id:". A file that is not open yet is judged by its path alone.
[[nodiscard]] std::function<std::optional<std::string>(const discovery::Library &)> exclusion(
    const std::vector<std::string> &exclude);

}  // namespace gpusnoop::probes
