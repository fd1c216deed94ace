// The processes that a profile can have.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exporter/probes/frame/processes/followed_processes.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

// Only these processes and what they start; both empty: all that are followed.
struct ProfileFilter {
    std::vector<std::uint32_t> pids;
    std::string comm;  // a glob
};

// For one thread.
class ProfiledProcesses {
public:
    // In struct followed: the process that began it.
    void started(const ProcessIdentity &process, std::uint32_t root);
    // Those that ran before they were found; the records have the ones that begin.
    void note_running(
        const FollowedProcesses &followed,
        const std::function<const ProcessIdentity &(const ProcessKey &)> &identity_of);

    [[nodiscard]] bool knows(const ProcessKey &key) const { return known_.contains(key); }
    [[nodiscard]] bool knows(std::uint32_t pid) const;
    [[nodiscard]] bool wants(const ProfileFilter &filter, const ProcessKey &key) const;
    // Of a known process. Texts are safe for a terminal.
    [[nodiscard]] const processes::ProcessNames &names(const ProcessKey &key) const {
        return known_.at(key).names;
    }
    [[nodiscard]] std::vector<ProcessKey> keys() const;
    // Forgets the others, but for the processes that began those that are kept.
    void keep_only(const std::function<bool(const ProcessKey &)> &is_kept);

private:
    struct Known {
        processes::ProcessNames names;
        std::uint32_t root = 0;
    };
    std::map<ProcessKey, Known> known_;
};

}  // namespace gpusnoop::probes
