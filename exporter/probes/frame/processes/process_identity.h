// The identity of a process: its key, and its description for the page.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bpf/lib/processes/process.h"
#include "exporter/processes/cgroup_owner.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

// A process is its id and when it made its first traced call: a reused pid, or the next program
// after an exec, is another process.
struct ProcessKey {
    std::uint32_t tgid = 0;
    std::uint64_t since_ns = 0;

    auto operator<=>(const ProcessKey &) const = default;
};

struct ProcessKeyHash {
    // Flat tables use the low bits, so these bits must differ for processes of the same moment.
    std::size_t operator()(const ProcessKey &key) const {
        const std::uint64_t hash =
            key.since_ns * 0x9e3779b97f4a7c15 + std::uint64_t{key.tgid} * 0xbf58476d1ce4e5b9;
        return hash ^ (hash >> 32);
    }
};

// Texts are valid UTF-8 and not long.
struct ProcessIdentity : processes::ProcessNames {
    ProcessIdentity() { comm = "unknown"; }

    ProcessKey key;
    std::chrono::nanoseconds started{};  // since boot, as /proc/PID/stat says; 0: not known
    std::uint32_t ppid = 0;              // when it made that call; 0: not known
    std::string pod_uid;
    std::string exe = "unknown";
    std::string slurm_step_id;
    std::string systemd_unit;          // empty: none, or in a container
    std::optional<std::uint32_t> uid;  // as the host counts
    bool has_arguments = false;        // the script is known, if there is one
    bool has_part_of_cgroup = false;   // its path was too long for the record
    std::uint32_t system_calls = 0;    // SYSTEM_CALLS_* of bpf/lib/processes/process.h
};

// From a record of the BPF programs. Without details, what they say stays as it is.
void take(ProcessIdentity &identity, const process_identity &record,
          const process_details *details = nullptr);

// The path in a record of the BPF programs. Without its outermost directory it has a unit only.
processes::CgroupOwner owner_of(const process_cgroup &cgroup);

// What only details say, as it is known of the same program already.
void take_details(ProcessIdentity &identity, const ProcessIdentity &known);

// Fills in the values from /proc that are unknown, or better known there. False: the process has
// ended.
bool look_up(ProcessIdentity &identity);

// Fallback for lost exit records: a process has ended once two scans in a row find it gone, so that
// its last records are read first.
class EndedProcesses {
public:
    // The ended processes of `running`, whose values are their start times.
    std::vector<ProcessKey> look(
        const std::vector<std::pair<ProcessKey, std::chrono::nanoseconds>> &running);

private:
    std::vector<ProcessKey> gone_;  // in the last scan
};

// What several processes belong to together: a container, or a job of Slurm.
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
