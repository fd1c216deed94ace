// A cgroup whose processes have little memory. Removed when this is destroyed, which they must not
// outlive.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace harness {

class MemoryCgroup {
public:
    // Empty: this machine lets nobody limit memory.
    static std::optional<MemoryCgroup> make(std::uint64_t bytes) {
        std::ofstream("/sys/fs/cgroup/cgroup.subtree_control") << "+memory";  // of version 2
        const std::string name = "gpusnoop_test_" + std::to_string(::getpid());
        for (const auto &[root, limit] :
             {std::pair("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
              std::pair("/sys/fs/cgroup", "memory.max")}) {
            MemoryCgroup cgroup;
            std::error_code error;
            const auto path = std::filesystem::path(root) / name;
            if (!std::filesystem::create_directory(path, error)) {
                continue;
            }
            cgroup.path_ = path;
            if (std::filesystem::exists(path / limit)) {
                std::ofstream(path / limit) << bytes;
                return cgroup;
            }
        }
        return std::nullopt;
    }
    ~MemoryCgroup() {
        for (int i = 0; i < 100 && !path_.empty() && ::rmdir(path_.c_str()) != 0; i++) {
            ::usleep(20'000);
        }
    }
    MemoryCgroup(MemoryCgroup &&other) noexcept : path_(std::move(other.path_)) {
        other.path_.clear();
    }
    MemoryCgroup &operator=(MemoryCgroup &&) = delete;
    MemoryCgroup(const MemoryCgroup &) = delete;
    MemoryCgroup &operator=(const MemoryCgroup &) = delete;

    // In version 2: past this, its processes are slowed down and have to free memory, but not
    // killed. Lifts the limit.
    void slow_down_past(std::uint64_t bytes) const {
        std::ofstream(path_ / "memory.high") << bytes;
        std::ofstream(path_ / "memory.max") << "max";
    }

    void take(pid_t process) const { std::ofstream(path_ / "cgroup.procs") << process; }
    [[nodiscard]] const std::filesystem::path &path() const { return path_; }

private:
    MemoryCgroup() = default;

    std::filesystem::path path_;
};

}  // namespace harness
