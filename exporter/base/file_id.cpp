#include "exporter/base/file_id.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace gpusnoop {

std::optional<FileState> state_of(const Fd &file) {
    struct statx status{};
    if (!file || ::statx(file.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                         STATX_SIZE | STATX_MTIME, &status) != 0) {
        return std::nullopt;
    }
    return FileState{status.stx_size, std::chrono::seconds(status.stx_mtime.tv_sec) +
                                          std::chrono::nanoseconds(status.stx_mtime.tv_nsec)};
}

}  // namespace gpusnoop
