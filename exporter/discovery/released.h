// The processes that are to have no probes for a while, and the files that are not attached to for
// that.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "exporter/base/file_id.h"

namespace gpusnoop::discovery {

// A probe on a file is in every process that maps it, so the others lose it, too. For one thread.
class Released {
public:
    using Clock = std::chrono::steady_clock;

    struct Process {
        std::chrono::nanoseconds started{};  // since boot
        Clock::time_point until{};
    };

    [[nodiscard]] bool is_empty() const { return processes_.empty(); }
    [[nodiscard]] bool has(std::uint32_t tgid) const { return processes_.contains(tgid); }
    [[nodiscard]] const std::map<std::uint32_t, Process> &processes() const { return processes_; }
    void add(std::uint32_t tgid, const Process &process) {
        processes_.insert_or_assign(tgid, process);
    }
    // False: it was not released.
    bool remove(std::uint32_t tgid) {
        for (auto &[file, holders] : files_) {
            holders.erase(tgid);
        }
        std::erase_if(files_, [](const auto &file) { return file.second.empty(); });
        return processes_.erase(tgid) != 0;
    }

    // One of the processes maps the file.
    void hold(const FileId &file, std::uint32_t tgid) { files_[file].insert(tgid); }
    [[nodiscard]] bool holds(const FileId &file) const { return files_.contains(file); }
    [[nodiscard]] std::vector<FileId> files_of(std::uint32_t tgid) const {
        std::vector<FileId> held;
        for (const auto &[file, holders] : files_) {
            if (holders.contains(tgid)) {
                held.push_back(file);
            }
        }
        return held;
    }

private:
    std::map<std::uint32_t, Process> processes_;
    std::map<FileId, std::set<std::uint32_t>> files_;  // and which of the processes map them
};

}  // namespace gpusnoop::discovery
