// Reads short files of the kernel, such as those below /proc.
#pragma once

#include <cstddef>
#include <string>

#include "exporter/base/result.h"

namespace gpusnoop {

// The first `most` bytes of the file, or all of it. The error's code is the errno: if a process
// ends after its file was opened, reading fails (ESRCH). Not a std::ifstream, whose buffer throws
// then.
[[nodiscard]] Result<std::string> read_start(const std::string &path, std::size_t most = 65'536);

}  // namespace gpusnoop
