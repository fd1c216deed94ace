// A sink's file, opened so that no other user chooses which file it is.
#pragma once

#include <string>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"

namespace gpusnoop::sinks {

// Opens the file at `path`, which is absolute, to append to it, and makes it if it is not there.
// Symbolic links are followed only if they are root's or the exporter's own user's, on the way as
// well as at the end. An error where everybody may write to the directory of the file, or to one on
// the way that has no sticky bit. Never waits: a FIFO that nobody reads is ENXIO.
[[nodiscard]] Result<Fd> open_to_append(const std::string &path);

}  // namespace gpusnoop::sinks
