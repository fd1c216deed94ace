// The GPU memory that a process held, by GPU, and what it adds to its container and its Slurm step.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "exporter/probes/cuda/memory/held_memory.h"
#include "exporter/probes/cuda/memory/live_allocations.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// Changes with each live allocation. Memory of the host does not count. All before end() uses the
// same `owners`, which must outlive this or its end.
class ProcessMemory {
public:
    // `is_complete`: the process is younger than this exporter.
    void add(const Process &process, const Allocation &allocation, std::chrono::nanoseconds at,
             MemoryOwners &owners, bool is_complete);
    void subtract(const Allocation &allocation, std::chrono::nanoseconds at);

    // For once a second: a GPU may have its name by now, and calls may have been missed.
    void look_again(const Process &process, std::chrono::nanoseconds now);
    // Records of its memory may be missing, so it may have held more.
    void note_incomplete();
    // It has ended, so that its owners hold nothing of it. What it held at its end stays its own.
    void end(MemoryOwners &owners, std::chrono::nanoseconds at);

    // Until then, or its end.
    [[nodiscard]] HeldMemory held(const Process &process, std::chrono::nanoseconds until) const;

private:
    struct Place {
        std::int32_t device = 0;
        std::uint64_t bytes = 0;
        MemoryAccount::OnGpu *own = nullptr;
        std::vector<MemoryAccount::OnGpu *> of_owners = {};  // as in accounts_
    };

    void begin(const Process &process, MemoryOwners &owners, bool is_complete);
    [[nodiscard]] Place *find(std::int32_t device);
    Place &place_of(const Process &process, std::int32_t device);

    std::optional<MemoryAccount> own_;  // once it has allocated
    std::vector<JobOwner> owners_;
    std::vector<MemoryAccount *> accounts_;  // of the owners
    std::vector<Place> places_;              // few
    std::optional<std::chrono::nanoseconds> ended_;
};

// A process, running or ended: until then, or its end.
[[nodiscard]] HeldMemory held_by(const Process &process, std::chrono::nanoseconds until);

}  // namespace gpusnoop::probes
