// What several processes belong to together: a container, or a job of Slurm.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// Either of them.
struct JobOwner {
    std::string container_id = {};
    std::string slurm_job_id = {};
    std::string slurm_step_id = {};  // empty: of the job, and of none of its steps

    auto operator<=>(const JobOwner &) const = default;
};

// None, one, or both: a step can run a container.
[[nodiscard]] inline std::vector<JobOwner> owners_of(const ProcessIdentity &process) {
    std::vector<JobOwner> owners;
    if (!process.container.empty()) {
        owners.push_back({.container_id = process.container});
    }
    if (!process.slurm_job_id.empty()) {
        owners.push_back(
            {.slurm_job_id = process.slurm_job_id, .slurm_step_id = process.slurm_step_id});
    }
    return owners;
}

}  // namespace gpusnoop::probes
