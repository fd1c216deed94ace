// The results of a function that are errors, and their names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exporter/probes/functions/setting_groups.h"

namespace gpusnoop::probes {

// The label `code` of a call that returned `result` (the whole register), or nothing if that is no
// error. A number that has no name is code_N, of kind nonzero the number itself. Of kind errno,
// results from -4095 to -1 are errors: -1 is "-1", as errno itself is not seen.
[[nodiscard]] std::optional<std::string> error_of(ErrorKind kind, std::uint64_t result);

}  // namespace gpusnoop::probes
