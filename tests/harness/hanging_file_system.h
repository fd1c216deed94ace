// A file system of one file (FUSE) that stops answering when it is told to.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "tests/harness/process.h"

namespace harness {

// Mounted until it goes; needs root and /dev/fuse. Its process can be gone only with it: what waits
// for it then goes on.
class HangingFileSystem {
public:
    // The file has this name, and what `content` has in it.
    HangingFileSystem(const std::string &name, const std::filesystem::path &content);
    ~HangingFileSystem();
    HangingFileSystem(const HangingFileSystem &) = delete;
    HangingFileSystem &operator=(const HangingFileSystem &) = delete;

    [[nodiscard]] std::filesystem::path file() const { return directory_ / name_; }
    // From now on, nothing is answered that is asked of it.
    void hang() const;

private:
    TemporaryDirectory directory_;
    std::string name_;
    pid_t pid_ = -1;
};

}  // namespace harness
