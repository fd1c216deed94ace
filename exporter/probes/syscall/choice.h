// Which system calls a user can ask for.
#pragma once

#include <string>

namespace gpusnoop::probes {

// What is wrong with a name of a system call or of a group of them; "" if it is fine.
[[nodiscard]] std::string syscall_problem(const std::string &name);

}  // namespace gpusnoop::probes
