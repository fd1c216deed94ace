// A cgroup that limits reads from a disk, of either version.
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "tests/harness/machine/memory_cgroup.h"

namespace harness {

// Limits how many times a second a process in a cgroup of memory reads from the disk under a file
// system. In version 2, where a process is in one cgroup only, the limit is that cgroup's. Where
// the machine has no such limits, it limits nothing.
class DiskCgroup {
public:
    DiskCgroup() {
        if (std::filesystem::exists("/sys/fs/cgroup/blkio")) {
            directory_ = "/sys/fs/cgroup/blkio/gpusnoop_test_disk_" + std::to_string(::getpid());
            std::error_code error;
            std::filesystem::create_directory(directory_, error);
        } else {
            std::ofstream("/sys/fs/cgroup/cgroup.subtree_control") << "+io";
        }
    }
    ~DiskCgroup() {
        for (int i = 0; i < 100 && !directory_.empty() && ::rmdir(directory_.c_str()) != 0; i++) {
            ::usleep(20'000);
        }
    }
    DiskCgroup(const DiskCgroup &) = delete;
    DiskCgroup &operator=(const DiskCgroup &) = delete;

    void limit(pid_t process, const MemoryCgroup &memory, const std::filesystem::path &on,
               int reads_a_second) const {
        if (directory_.empty()) {
            std::ofstream(memory.path() / "io.max") << disk(on) << " riops=" << reads_a_second;
            return;
        }
        std::ofstream(directory_ / "blkio.throttle.read_iops_device")
            << disk(on) << ' ' << reads_a_second;
        std::ofstream(directory_ / "cgroup.procs") << process;
    }

private:
    // The whole disk's number, "254:0": a partition has no limits of its own.
    static std::string disk(const std::filesystem::path &on) {
        struct stat status{};
        ::stat(on.c_str(), &status);
        std::string number =
            std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
        const auto folder = std::filesystem::path("/sys/dev/block") / number;
        if (std::filesystem::exists(folder / "partition")) {
            std::ifstream(folder / ".." / "dev") >> number;
        }
        return number;
    }

    std::filesystem::path directory_;  // in version 1
};

}  // namespace harness
