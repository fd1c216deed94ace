// Whose a cgroup is, from its path alone: the container, the pod, the job of Slurm and the unit of
// systemd.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "exporter/processes/cgroup.h"

namespace gpusnoop::processes {

// Of /proc/<pid>/cgroup, no more is read.
constexpr std::size_t max_cgroup_file_bytes = 64 * 1024;

struct SlurmStep {
    std::string job_id;   // empty: no job's; a SLUID where the cgroup has that
    std::string step_id;  // "0", "batch", "extern", "interactive"; empty: not in a step

    friend bool operator==(const SlurmStep &, const SlurmStep &) = default;
};

struct CgroupOwner {
    ContainerIdentity container;
    SlurmStep slurm;
    std::string systemd_unit;  // the innermost service or scope: "train.service"; empty: none

    friend bool operator==(const CgroupOwner &, const CgroupOwner &) = default;
};

// The names of the path's directories, from the outermost to the innermost. Slurm's, by its plugins
// for cgroup v1 and v2, and since 26.05 by the job's SLUID:
//   slurm[_NODE]/uid_1000/job_12/step_0/task_0
//   system.slice/[NODE_]slurmstepd.scope/[NODE/]job_12/step_0/user/task_0
//   system.slice/[NODE_]slurmstepd.scope/[NODE/]s7QX2M9TABCD00/step_0/user/task_0
// The outermost job is the answer: a job may make any directories below its own.
//
// `not_root`: whether root does not own the directory at an index. A user may give any name to a
// directory below one of his own, so only the names above those tell the container and the job. The
// unit is for people, and may be one of the user's.
[[nodiscard]] CgroupOwner owner_of(
    std::span<const std::string_view> path,
    const std::function<bool(std::size_t)> &not_root = [](std::size_t) { return false; });

// Slurm's unique id of a job.
[[nodiscard]] bool is_sluid(std::string_view name);

// A job's number in the environment's "SLURM_JOB_ID=12"; empty: it is none.
[[nodiscard]] std::string_view slurm_job_id_in(std::string_view variable);

// The same for the content of /proc/<pid>/cgroup, which has a line for each hierarchy. `not_root`:
// of a hierarchy's controllers ("" is v2), whether root does not own the first `levels` directories
// of the path.
using NotRoot = std::function<bool(std::string_view controllers,
                                   std::span<const std::string_view> directories)>;
[[nodiscard]] CgroupOwner parse_cgroup_owner(
    std::string_view content, const NotRoot &not_root = [](auto, auto) { return false; });

// The directories of a container and of a step, from /proc/<pid>/cgroup: the outermost that are
// theirs, below where their hierarchy is mounted. Empty: there is none, or it cannot be seen from
// here. `container_id` is what is known of the process: its users may have made directories like
// those of other containers below that one's.
struct OwnerDirectories {
    std::string container;
    std::string slurm_step;
};
[[nodiscard]] OwnerDirectories owner_directories(std::string_view content,
                                                 std::string_view container_id);

}  // namespace gpusnoop::processes
