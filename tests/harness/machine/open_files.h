// Who has a file open.
#pragma once

#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "exporter/processes/proc.h"

namespace harness {

// The other processes, as far as they can be looked at.
inline std::vector<pid_t> processes_that_have_open(const struct stat &file) {
    std::vector<pid_t> found;
    for (const auto tgid : gpusnoop::processes::all_processes()) {
        const auto pid = static_cast<pid_t>(tgid);
        if (pid == ::getpid()) {
            continue;
        }
        std::error_code error;
        const std::string directory = "/proc/" + std::to_string(pid) + "/fd";
        for (auto entry = std::filesystem::directory_iterator(directory, error);
             !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
            struct stat status{};
            if (::stat(entry->path().c_str(), &status) == 0 && status.st_ino == file.st_ino &&
                status.st_dev == file.st_dev) {
                found.push_back(pid);
                break;
            }
        }
    }
    return found;
}

// The process does nothing while this is there.
class StoppedProcess {
public:
    explicit StoppedProcess(pid_t pid) : pid_(pid) { ::kill(pid, SIGSTOP); }
    ~StoppedProcess() { ::kill(pid_, SIGCONT); }
    StoppedProcess(const StoppedProcess &) = delete;
    StoppedProcess &operator=(const StoppedProcess &) = delete;

private:
    pid_t pid_;
};

}  // namespace harness
