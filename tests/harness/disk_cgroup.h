// A cgroup that limits reads from a disk, of either version.
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace harness {

// A cgroup whose processes read from the disk under a file system so many times a second. Where the
// machine has no such cgroups, it limits nothing.
class DiskCgroup {
public:
    DiskCgroup(const std::filesystem::path &on, int reads_a_second) {
        const bool is_v1 = std::filesystem::exists("/sys/fs/cgroup/blkio");
        if (!is_v1) {
            std::ofstream("/sys/fs/cgroup/cgroup.subtree_control") << "+io";
        }
        directory_ = std::filesystem::path(is_v1 ? "/sys/fs/cgroup/blkio" : "/sys/fs/cgroup") /
                     ("gpusnoop_test_disk_" + std::to_string(::getpid()));
        std::error_code error;
        std::filesystem::create_directory(directory_, error);
        const std::string limit = std::to_string(reads_a_second);
        if (is_v1) {
            std::ofstream(directory_ / "blkio.throttle.read_iops_device")
                << disk(on) << ' ' << limit;
        } else {
            std::ofstream(directory_ / "io.max") << disk(on) << " riops=" << limit;
        }
    }
    ~DiskCgroup() {
        for (int i = 0; i < 100 && ::rmdir(directory_.c_str()) != 0; i++) {
            ::usleep(20'000);
        }
    }
    DiskCgroup(const DiskCgroup &) = delete;
    DiskCgroup &operator=(const DiskCgroup &) = delete;

    void take(pid_t process) const { std::ofstream(directory_ / "cgroup.procs") << process; }

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

    std::filesystem::path directory_;
};

}  // namespace harness
