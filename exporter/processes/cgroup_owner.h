// Which job or unit a cgroup belongs to, from its path alone: Slurm's jobs and systemd's units.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpusnoop::processes {

struct SlurmStep {
    std::string job_id;   // empty: no job's
    std::string step_id;  // "0", "batch", "extern", "interactive"; empty: not in a step

    friend bool operator==(const SlurmStep &, const SlurmStep &) = default;
};

// The names of the path's directories, from the outermost to the innermost. Slurm's, by its plugins
// for cgroup v1 and v2:
//   slurm[_NODE]/uid_1000/job_12/step_0/task_0
//   system.slice/[NODE_]slurmstepd.scope/[NODE/]job_12/step_0/user/task_0
// The outermost job is the answer: a job may make any directories below its own.
[[nodiscard]] SlurmStep slurm_step_of(std::span<const std::string_view> path);

// The innermost service or scope: "train.service", "session-3.scope"; empty: none.
[[nodiscard]] std::string systemd_unit_of(std::span<const std::string_view> path);

// The same for the content of /proc/<pid>/cgroup.
struct CgroupOwner {
    SlurmStep slurm;
    std::string systemd_unit;

    friend bool operator==(const CgroupOwner &, const CgroupOwner &) = default;
};
[[nodiscard]] CgroupOwner parse_cgroup_owner(std::string_view content);

}  // namespace gpusnoop::processes
