// A cgroup with a CPU quota, of either version.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/harness/exporter.h"

namespace harness {

// A cgroup that may use 20 ms of a CPU in each 100 ms, and gets them before others.
class CpuCgroup {
public:
    CpuCgroup() {
        const bool is_v1 = std::filesystem::exists("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
        directory_ = std::string(is_v1 ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup") +
                     "/gpusnoop_test_throttling";
        if (!is_v1) {
            write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu");
        }
        std::error_code error;
        std::filesystem::create_directory(directory_, error);
        if (is_v1) {
            write(directory_ + "/cpu.cfs_period_us", "100000");
            write(directory_ + "/cpu.cfs_quota_us", "20000");
            write(directory_ + "/cpu.shares", "262144");
        } else {
            write(directory_ + "/cpu.max", "20000 100000");
            write(directory_ + "/cpu.weight", "10000");
        }
        if (!std::filesystem::exists(directory_ + "/cpu.stat")) {
            missing("a cgroup with a CPU quota");
        }
    }
    ~CpuCgroup() {
        std::error_code error;
        std::filesystem::remove(directory_, error);
    }
    CpuCgroup(const CpuCgroup &) = delete;
    CpuCgroup &operator=(const CpuCgroup &) = delete;

    void take(pid_t pid) const { write(directory_ + "/cgroup.procs", std::to_string(pid)); }

    [[nodiscard]] std::filesystem::path path() const { return directory_; }

    // In seconds, over all CPUs.
    [[nodiscard]] double throttled() const {
        return count("throttled_time") / 1e9 + count("throttled_usec") / 1e6;
    }
    // A number in its cpu.stat; 0 if that does not have it.
    [[nodiscard]] double count(const std::string &of) const {
        std::ifstream file(directory_ + "/cpu.stat");
        std::string key;
        double value = 0;
        while (file >> key >> value) {
            if (key == of) {
                return value;
            }
        }
        return 0;
    }

private:
    static void write(const std::string &path, const std::string &text) {
        std::ofstream(path) << text;
    }

    std::string directory_;
};

}  // namespace harness
