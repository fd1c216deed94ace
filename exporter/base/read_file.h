// Short files of the kernel, such as those below /proc.
#pragma once

#include <cstddef>
#include <string>

#include "exporter/base/result.h"

namespace gpusnoop {

// The first `most` bytes of the file, or all of it. The error's code is the errno: files of a
// process can be opened and then not be read (ESRCH) when it has ended in between. Not by a
// std::ifstream, whose buffer throws then.
[[nodiscard]] Result<std::string> read_start(const std::string &path, std::size_t most = 65'536);

}  // namespace gpusnoop
