// What the processes of one container, or of one step of a Slurm job, hold together: the peak of
// their sum, which is less than the sum of their peaks.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "exporter/probes/cuda/memory/held_memory.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

class MemoryOwners {
public:
    // A process that began then has allocated for the first time. The accounts in which it counts
    // are valid until it leaves.
    [[nodiscard]] std::vector<MemoryAccount *> join(const std::vector<JobOwner> &owners,
                                                    std::chrono::nanoseconds since);
    void leave(const std::vector<JobOwner> &owners, std::chrono::nanoseconds at);

    // Forgets those whose last process left so long ago.
    void expire(std::chrono::nanoseconds now, std::chrono::nanoseconds retention);

    // Nothing: it has no process that ever allocated, or is forgotten.
    [[nodiscard]] std::optional<HeldMemory> held_by(const JobOwner &owner,
                                                    std::chrono::nanoseconds until) const;

    void for_each(std::chrono::nanoseconds until, auto &&visit) const {
        for (const auto &[owner, known] : owners_) {
            visit(owner, known.account.held(until));
        }
    }

private:
    struct Known {
        explicit Known(std::chrono::nanoseconds since) : account(since) {}

        MemoryAccount account;
        std::size_t processes = 0;
        std::chrono::nanoseconds left{};  // when the last one did
    };

    std::map<JobOwner, Known> owners_;
};

}  // namespace gpusnoop::probes
