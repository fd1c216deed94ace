#include "exporter/probes/frame/processes/process_identity.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "exporter/base/text/text.h"
#include "exporter/processes/arguments.h"
#include "exporter/processes/command_line.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

template <std::size_t N>
std::string label_text(const char (&bytes)[N]) {
    return to_valid_utf8({bytes, N}, max_label_bytes);
}

// The record has the path from the innermost directory on.
std::vector<std::string_view> path_of(const process_cgroup &cgroup) {
    std::string_view names(cgroup.names, std::min<std::size_t>(cgroup.bytes, PROCESS_PATH_BYTES));
    std::vector<std::string_view> path;
    while (path.size() < std::min<std::size_t>(cgroup.levels, PROCESS_PATH_LEVELS)) {
        path.push_back(take_until(names, '\0'));
    }
    std::ranges::reverse(path);
    return path;
}

// A user can put any job's number into his environment, so it says only which number the job has
// whose cgroup has a SLUID.
processes::CgroupOwner owner_in(const process_details &details) {
    processes::CgroupOwner owner = owner_of(details.cgroup);
    if (processes::is_sluid(owner.slurm.job_id)) {
        const char(&variable)[PROCESS_VARIABLE_BYTES] = details.slurm_job_id;
        const std::string_view number =
            processes::slurm_job_id_in({variable, ::strnlen(variable, sizeof(variable))});
        if (!number.empty()) {
            owner.slurm.job_id = number;
        }
    }
    return owner;
}

std::string script_in(const process_arguments &arguments, std::string_view comm) {
    const std::size_t head = std::min<std::size_t>(arguments.head_bytes, sizeof(arguments.head));
    const std::size_t rest = std::min<std::size_t>(arguments.rest_bytes, sizeof(arguments.rest));
    const std::vector<std::string> split =
        processes::split_arguments({.head = {arguments.head, head},
                                    .rest = {arguments.rest, rest},
                                    .rest_at = arguments.rest_at,
                                    .total = arguments.total});
    return to_valid_utf8(processes::script_of(split, comm), max_label_bytes);
}

// The programs cannot read arguments that are not in memory, or that the kernel makes inaccessible
// for a while to see which NUMA node uses them (sysctl kernel.numa_balancing).
std::string script_of_running(std::uint32_t tgid, std::string_view comm) {
    const std::string arguments = processes::arguments_of(tgid).value_or("");
    const std::vector<std::string> split = processes::split_arguments(
        {.head = arguments, .rest = {}, .rest_at = 0, .total = arguments.size()});
    return to_valid_utf8(processes::script_of(split, comm), max_label_bytes);
}

// Fills in what is not known yet. A container's own scope is no news: it has the container's id.
void add_owner(ProcessIdentity &identity, const processes::CgroupOwner &owner) {
    if (identity.container.empty() && identity.pod_uid.empty()) {
        identity.container = owner.container.container_id;
        identity.pod_uid = owner.container.pod_uid;
    }
    if (identity.slurm_job_id.empty()) {
        identity.slurm_job_id = to_valid_utf8(owner.slurm.job_id, max_label_bytes);
        identity.slurm_step_id = to_valid_utf8(owner.slurm.step_id, max_label_bytes);
    }
    if (!identity.container.empty()) {
        identity.systemd_unit.clear();
    } else if (identity.systemd_unit.empty()) {
        identity.systemd_unit = to_valid_utf8(owner.systemd_unit, max_label_bytes);
    }
}

}  // namespace

void take(ProcessIdentity &identity, const process_identity &record,
          const process_details *details) {
    identity.started = nanoseconds(static_cast<std::int64_t>(record.start_boottime_ns));
    identity.ppid = record.ppid;
    identity.comm = label_text(record.comm);
    identity.system_calls = record.system_calls;
    identity.uid = record.uid;
    if (details == nullptr) {
        return;
    }
    identity.script = script_in(details->arguments, identity.comm);
    identity.has_arguments = details->arguments.total > 0;
    identity.container.clear();
    identity.pod_uid.clear();
    identity.slurm_job_id.clear();
    identity.slurm_step_id.clear();
    identity.systemd_unit.clear();
    identity.has_part_of_cgroup = details->cgroup.is_whole == 0 && details->cgroup.levels > 0;
    add_owner(identity, owner_in(*details));
}

processes::CgroupOwner owner_of(const process_cgroup &cgroup) {
    const std::vector<std::string_view> path = path_of(cgroup);
    processes::CgroupOwner owner = processes::owner_of(
        path, [&](std::size_t i) { return (cgroup.not_root >> (path.size() - 1 - i) & 1U) != 0; });
    if (cgroup.is_whole == 0) {
        return {.container = {}, .slurm = {}, .systemd_unit = std::move(owner.systemd_unit)};
    }
    return owner;
}

void take_details(ProcessIdentity &identity, const ProcessIdentity &known) {
    identity.script = known.script;
    identity.has_arguments = known.has_arguments;
    identity.container = known.container;
    identity.pod_uid = known.pod_uid;
    identity.slurm_job_id = known.slurm_job_id;
    identity.slurm_step_id = known.slurm_step_id;
    identity.systemd_unit = known.systemd_unit;
    identity.has_part_of_cgroup = known.has_part_of_cgroup;
}

bool look_up(ProcessIdentity &identity) {
    const std::uint32_t tgid = identity.key.tgid;
    const bool has_record = identity.started != nanoseconds::zero();
    if (!has_record) {
        identity.started = processes::start_time(tgid).value_or(nanoseconds::zero());
    }
    if (processes::presence(tgid, identity.started) != processes::Presence::running) {
        return false;
    }
    if (!has_record) {
        identity.ppid = processes::parent_of(tgid).value_or(0);
        identity.uid = processes::user_of(tgid);
        if (const std::string name = processes::name_of(tgid); !name.empty()) {
            identity.comm = to_valid_utf8(name, max_label_bytes);
        }
    }
    // Another name would be that of another program, which it has become since.
    if (!identity.has_arguments && processes::name_of(tgid) == identity.comm) {
        identity.script = script_of_running(tgid, identity.comm);
        identity.has_arguments = true;
    }
    if (const std::string exe = processes::executable_path(tgid); !exe.empty()) {
        identity.exe = to_valid_utf8(exe, max_label_bytes);
    }
    // The record has one hierarchy, and a user could make its path too long on purpose.
    add_owner(identity, processes::cgroup_owner_of(tgid, !identity.has_part_of_cgroup));
    return true;
}

std::vector<ProcessKey> EndedProcesses::look(
    const std::vector<std::pair<ProcessKey, nanoseconds>> &running) {
    std::vector<ProcessKey> gone;
    std::vector<ProcessKey> ended;
    for (const auto &[key, started] : running) {
        if (processes::presence(key.tgid, started) != processes::Presence::gone) {
            continue;
        }
        (std::ranges::find(gone_, key) != gone_.end() ? ended : gone).push_back(key);
    }
    gone_ = std::move(gone);
    return ended;
}

}  // namespace gpusnoop::probes
