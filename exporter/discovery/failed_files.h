// Counts the files of each process that failed: a process that maps one bad file after the other
// has to wait for all others.
#pragma once

#include <cstdint>
#include <map>

namespace gpusnoop::discovery {

class FailedFiles {
public:
    // The limits for one process, in one scan and between two rescans. Over them, its other files
    // wait.
    static constexpr int max_in_look = 4;
    static constexpr int max_between_rescans = 32;

    enum class Next { now, next_look, next_rescan };

    void note(std::uint32_t tgid) {
        Count &count = counts_[tgid];
        count.in_look++;
        count.since_rescan++;
    }
    // When the next file of the process may be tried.
    [[nodiscard]] Next next(std::uint32_t tgid) const {
        const auto count = counts_.find(tgid);
        if (count == counts_.end()) {
            return Next::now;
        }
        if (count->second.since_rescan >= max_between_rescans) {
            return Next::next_rescan;
        }
        return count->second.in_look >= max_in_look ? Next::next_look : Next::now;
    }
    [[nodiscard]] bool has(std::uint32_t tgid) const { return counts_.contains(tgid); }

    void begin_look() {
        for (auto &[tgid, count] : counts_) {
            count.in_look = 0;
        }
    }
    void begin_rescan() { counts_.clear(); }

private:
    struct Count {
        int in_look = 0;
        int since_rescan = 0;
    };
    std::map<std::uint32_t, Count> counts_;
};

}  // namespace gpusnoop::discovery
