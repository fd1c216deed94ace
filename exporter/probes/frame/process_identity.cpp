#include "exporter/probes/frame/process_identity.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "exporter/base/label.h"
#include "exporter/base/text.h"
#include "exporter/processes/cgroup.h"
#include "exporter/processes/cgroup_owner.h"
#include "exporter/processes/command_line.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

template <std::size_t N>
std::string_view c_string(const char (&bytes)[N]) {
    return {bytes, ::strnlen(bytes, N)};
}

template <std::size_t N>
std::string label_text(const char (&bytes)[N]) {
    return to_valid_utf8({bytes, N}, max_label_bytes);
}

// The record has the path from the innermost directory on.
std::vector<std::string_view> path_of(const process_details &details) {
    std::vector<std::string_view> path;
    for (int i = PROCESS_PATH_LEVELS; i-- > 0;) {
        const char *const name = details.path[i];
        if (const std::size_t bytes = ::strnlen(name, PROCESS_PATH_BYTES); bytes > 0) {
            path.emplace_back(name, bytes);
        }
    }
    return path;
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
    const std::string arguments = processes::arguments_of(tgid);
    const std::vector<std::string> split = processes::split_arguments(
        {.head = arguments, .rest = {}, .rest_at = 0, .total = arguments.size()});
    return to_valid_utf8(processes::script_of(split, comm), max_label_bytes);
}

// A container's own scope is no news: it has the container's id.
void set_owner(ProcessIdentity &identity, const processes::CgroupOwner &owner) {
    const bool is_container = !identity.container.empty();
    identity.slurm_job_id = to_valid_utf8(owner.slurm.job_id, max_label_bytes);
    identity.slurm_step_id = to_valid_utf8(owner.slurm.step_id, max_label_bytes);
    identity.systemd_unit =
        is_container ? std::string() : to_valid_utf8(owner.systemd_unit, max_label_bytes);
}

}  // namespace

void take(ProcessIdentity &identity, const process_identity &record,
          const process_details *details) {
    identity.started = nanoseconds(static_cast<std::int64_t>(record.start_boottime_ns));
    identity.ppid = record.ppid;
    identity.comm = label_text(record.comm);
    const auto container =
        processes::parse_cgroup_names(label_text(record.cgroup), label_text(record.cgroup_parent));
    identity.container = container.container_id;
    identity.pod_uid = container.pod_uid;
    identity.system_calls = record.system_calls;
    identity.uid = record.uid;
    if (details == nullptr) {
        return;
    }
    identity.script = script_in(details->arguments, identity.comm);
    identity.has_arguments = details->arguments.total > 0;
    const std::vector<std::string_view> path = path_of(*details);
    const std::array<std::string_view, 2> unified = {c_string(record.cgroup_parent),
                                                     c_string(record.cgroup)};
    set_owner(identity, {.slurm = processes::slurm_step_of(path),
                         .systemd_unit = processes::systemd_unit_of(unified)});
}

void take_details(ProcessIdentity &identity, const ProcessIdentity &known) {
    identity.script = known.script;
    identity.has_arguments = known.has_arguments;
    identity.slurm_job_id = known.slurm_job_id;
    identity.slurm_step_id = known.slurm_step_id;
    identity.systemd_unit = known.systemd_unit;
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
    const std::string cgroups = processes::cgroups_of(tgid);
    const processes::ContainerIdentity container = processes::parse_cgroup_file(cgroups);
    if (!container.container_id.empty()) {
        identity.container = container.container_id;
        identity.pod_uid = container.pod_uid;
    }
    processes::CgroupOwner owner = processes::parse_cgroup_owner(cgroups);
    // Of a process that is ending, /proc has no path in v1 hierarchies any more.
    if (owner.slurm.job_id.empty()) {
        owner.slurm = {.job_id = identity.slurm_job_id, .step_id = identity.slurm_step_id};
    }
    if (owner.systemd_unit.empty()) {
        owner.systemd_unit = identity.systemd_unit;
    }
    set_owner(identity, owner);
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
