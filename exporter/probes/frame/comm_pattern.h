// Globs for names of processes, as the programs in the kernel match them: a process is one to trace
// from the moment that it becomes a program of such a name.
#pragma once

#include <optional>
#include <string>

#include "bpf/lib/target.h"

namespace gpusnoop::probes {

// Nothing for a glob that no name of a process matches, as it wants more characters than such a
// name has, and for one that is not well formed: what that matches is up to the C library.
[[nodiscard]] std::optional<target_pattern> compile_comm_pattern(const std::string &glob);

}  // namespace gpusnoop::probes
