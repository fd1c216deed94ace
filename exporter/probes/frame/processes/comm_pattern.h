// Globs for names of processes, as the programs in the kernel match them: a process is a target
// from the moment that it becomes a program with such a name.
#pragma once

#include <optional>
#include <string>

#include "bpf/lib/processes/target.h"

namespace gpusnoop::probes {

// Nothing for a glob that matches no name of a process, as it needs more characters than a name can
// have. Also nothing for a malformed glob, whose matches depend on the C library.
[[nodiscard]] std::optional<target_pattern> compile_comm_pattern(const std::string &glob);

}  // namespace gpusnoop::probes
