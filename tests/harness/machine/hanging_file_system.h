// A file system of one file (FUSE) that stops answering, or answers slowly, on command.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "tests/harness/process.h"

namespace harness {

// Mounted until this is destroyed; needs root and /dev/fuse. Its process ends only with it; then
// the processes that wait for the file continue.
class HangingFileSystem {
public:
    // The file has this name, this owner, and the content of `content`.
    HangingFileSystem(const std::string &name, const std::filesystem::path &content,
                      uid_t owner = 0);
    ~HangingFileSystem();
    HangingFileSystem(const HangingFileSystem &) = delete;
    HangingFileSystem &operator=(const HangingFileSystem &) = delete;

    [[nodiscard]] std::filesystem::path file() const { return directory_ / name_; }
    // From now on, it answers no request.
    void hang() const;
    // From now on, it takes 0.3 s for each request to read; the kernel asks for 64 KiB at once.
    void slow_down() const;

private:
    TemporaryDirectory directory_;
    std::string name_;
    pid_t pid_ = -1;
};

}  // namespace harness
