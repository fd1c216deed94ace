// Checks the names of system calls in the configuration.
#pragma once

#include <string>

namespace gpusnoop::probes {

// The problem with the name of a system call or of a group of them; "" if there is none.
[[nodiscard]] std::string syscall_problem(const std::string &name);

}  // namespace gpusnoop::probes
