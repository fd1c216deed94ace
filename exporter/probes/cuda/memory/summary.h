// The outstanding allocations of the running processes: all of them for people and programs that
// look for a leak, and the overview for a person.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exporter/probes/cuda/memory/call_sites.h"
#include "exporter/probes/cuda/process.h"
#include "exporter/probes/frame/amount.h"
#include "exporter/probes/frame/overview.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

struct SiteAllocations {
    Amount amount;
    SiteName name;  // empty if it is not known yet
};
struct ProcessAllocations {
    std::uint32_t pid = 0;
    processes::ProcessNames names;
    std::string pod_uid, exe;
    std::optional<std::uint32_t> uid;
    std::string slurm_step_id, systemd_unit;
    Amount amount;
    std::vector<SiteAllocations> sites;  // the largest amounts first
    bool is_complete = true;             // false: it may hold more, from calls that were not seen
};
[[nodiscard]] std::vector<ProcessAllocations> memory_allocations(const CudaProcessTable &processes);

// The processes and call sites with the largest amounts.
[[nodiscard]] MemoryOverview memory_overview(const CudaProcessTable &processes);

}  // namespace gpusnoop::probes
