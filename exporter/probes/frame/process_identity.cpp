#include "exporter/probes/frame/process_identity.h"

#include <algorithm>

#include "exporter/base/label.h"
#include "exporter/base/text.h"
#include "exporter/processes/cgroup.h"
#include "exporter/processes/proc.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::nanoseconds;

template <std::size_t N>
std::string label_text(const char (&bytes)[N]) {
    return to_valid_utf8({bytes, N}, max_label_bytes);
}

}  // namespace

void take(ProcessIdentity &identity, const process_identity &record) {
    identity.started = nanoseconds(static_cast<std::int64_t>(record.start_boottime_ns));
    identity.ppid = record.ppid;
    identity.comm = label_text(record.comm);
    const auto container =
        processes::parse_cgroup_names(label_text(record.cgroup), label_text(record.cgroup_parent));
    identity.container = container.container_id;
    identity.pod_uid = container.pod_uid;
    identity.system_calls = record.system_calls;
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
        if (const std::string name = processes::name_of(tgid); !name.empty()) {
            identity.comm = to_valid_utf8(name, max_label_bytes);
        }
    }
    if (const std::string exe = processes::executable_path(tgid); !exe.empty()) {
        identity.exe = to_valid_utf8(exe, max_label_bytes);
    }
    const processes::ContainerIdentity container = processes::container_of(tgid);
    if (!container.container_id.empty()) {
        identity.container = container.container_id;
        identity.pod_uid = container.pod_uid;
    }
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
