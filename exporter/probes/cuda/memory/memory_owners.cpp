#include "exporter/probes/cuda/memory/memory_owners.h"

#include <algorithm>

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

std::vector<MemoryOwner> memory_owners_of(const ProcessIdentity &process) {
    std::vector<MemoryOwner> owners;
    if (!process.container.empty()) {
        owners.push_back(
            {.container_id = process.container, .slurm_job_id = {}, .slurm_step_id = {}});
    }
    if (!process.slurm_job_id.empty()) {
        owners.push_back({.container_id = {},
                          .slurm_job_id = process.slurm_job_id,
                          .slurm_step_id = process.slurm_step_id});
    }
    return owners;
}

std::vector<MemoryAccount *> MemoryOwners::join(const std::vector<MemoryOwner> &owners,
                                                nanoseconds since) {
    std::vector<MemoryAccount *> accounts;
    for (const MemoryOwner &owner : owners) {
        Known &known = owners_.try_emplace(owner, since).first->second;
        known.processes++;
        accounts.push_back(&known.account);
    }
    return accounts;
}

void MemoryOwners::leave(const std::vector<MemoryOwner> &owners, nanoseconds at) {
    for (const MemoryOwner &owner : owners) {
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

std::optional<HeldMemory> MemoryOwners::held_by(const MemoryOwner &owner, nanoseconds until) const {
    const auto found = owners_.find(owner);
    return found == owners_.end() ? std::nullopt : std::optional(found->second.account.held(until));
}

}  // namespace gpusnoop::probes
