#include "exporter/probes/profile/processes.h"

#include <algorithm>
#include <set>

#include "exporter/base/glob.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::probes {

namespace {

bool matches(const ProfileFilter &filter, std::uint32_t pid, const std::string &comm) {
    return (filter.pids.empty() || std::ranges::find(filter.pids, pid) != filter.pids.end()) &&
           (filter.comm.empty() || matches_glob(filter.comm, comm));
}

}  // namespace

void ProfiledProcesses::started(const ProcessIdentity &process, std::uint32_t root) {
    known_.insert_or_assign(process.key, Known{.names = trace::printable(process), .root = root});
}

void ProfiledProcesses::note_running(
    const FollowedProcesses &followed,
    const std::function<const ProcessIdentity &(const ProcessKey &)> &identity_of) {
    for (const FollowedProcesses::Entry &entry : followed.running()) {
        if (!known_.contains(entry.key)) {
            started(identity_of(entry.key), entry.root);
        }
    }
}

bool ProfiledProcesses::knows(std::uint32_t pid) const {
    return std::ranges::any_of(known_, [&](const auto &known) { return known.first.tgid == pid; });
}

bool ProfiledProcesses::wants(const ProfileFilter &filter, const ProcessKey &key) const {
    const auto known = known_.find(key);
    if (known == known_.end()) {
        return false;
    }
    return matches(filter, key.tgid, known->second.names.comm) ||
           std::ranges::any_of(known_, [&](const auto &other) {
               return other.first.tgid == known->second.root &&
                      matches(filter, other.first.tgid, other.second.names.comm);
           });
}

std::vector<ProcessKey> ProfiledProcesses::keys() const {
    std::vector<ProcessKey> keys;
    keys.reserve(known_.size());
    for (const auto &[key, unused] : known_) {
        keys.push_back(key);
    }
    return keys;
}

void ProfiledProcesses::keep_only(const std::function<bool(const ProcessKey &)> &is_kept) {
    std::set<std::uint32_t> roots;
    for (const auto &[key, known] : known_) {
        if (is_kept(key)) {
            roots.insert(known.root);
        }
    }
    std::erase_if(known_, [&](const auto &known) {
        return !is_kept(known.first) && !roots.contains(known.first.tgid);
    });
}

}  // namespace gpusnoop::probes
