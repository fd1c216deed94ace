#include "exporter/probes/cuda/memory/memory_owners.h"

#include <algorithm>

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

std::vector<MemoryAccount *> MemoryOwners::join(const std::vector<JobOwner> &owners,
                                                nanoseconds since) {
    std::vector<MemoryAccount *> accounts;
    for (const JobOwner &owner : owners) {
        Known &known = owners_.try_emplace(owner, since).first->second;
        known.processes++;
        accounts.push_back(&known.account);
    }
    return accounts;
}

void MemoryOwners::leave(const std::vector<JobOwner> &owners, nanoseconds at) {
    for (const JobOwner &owner : owners) {
        Known &known = owners_.at(owner);
        known.processes--;
        known.left = std::max(known.left, at);
    }
}

void MemoryOwners::expire(nanoseconds now, nanoseconds retention) {
    std::erase_if(owners_, [&](const auto &entry) {
        return entry.second.processes == 0 && now - entry.second.left >= retention;
    });
}

std::optional<HeldMemory> MemoryOwners::held_by(const JobOwner &owner, nanoseconds until) const {
    const auto found = owners_.find(owner);
    return found == owners_.end() ? std::nullopt : std::optional(found->second.account.held(until));
}

}  // namespace gpusnoop::probes
