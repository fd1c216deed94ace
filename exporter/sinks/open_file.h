// A sink's file, opened so that no other user chooses which file it is.
#pragma once

#include <string>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::sinks {

// Opens the file at `path`, which is absolute, to append to it, and creates it if it does not
// exist. Follows symbolic links, on the way and at the end, only if they belong to root or to the
// exporter's own user. An error if everybody may write to the file's directory, or to a directory
// on the way that has no sticky bit. Never waits: a FIFO without a reader is ENXIO.
[[nodiscard]] Result<Fd> open_to_append(const std::string &path);

}  // namespace gpusnoop::sinks
