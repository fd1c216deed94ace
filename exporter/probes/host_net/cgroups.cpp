#include "exporter/probes/host_net/cgroups.h"

#include <bpf/bpf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "exporter/ebpf/libbpf.h"
#include "exporter/ebpf/mappings/iterator.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/processes/proc.h"
#include "exporter/system/cgroup_limits.h"
#include "host_net.skel.h"

namespace gpusnoop::probes {

std::string unified_path(std::string_view cgroups) {
    const auto lines = cgroup_lines(cgroups);
    const auto unified = std::ranges::find_if(lines, &CgroupLine::is_v2);
    return unified == lines.end() ? std::string() : cgroup_directory("", unified->path);
}

std::optional<NetCgroup> NetCgroups::find(std::uint32_t tgid) const {
    const std::string path = unified_path(processes::cgroups_of(tgid));
    if (path.empty()) {
        return std::nullopt;
    }
    for (const std::string_view below : {"", "/unified"}) {
        struct stat status{};
        std::string directory = root_;
        directory += below;
        directory += path;
        if (::stat(directory.c_str(), &status) == 0) {
            return NetCgroup{.id = static_cast<std::uint64_t>(status.st_ino),
                             .name = path.substr(path.rfind('/') + 1),
                             .container = {},
                             .slurm_job = {}};
        }
    }
    return std::nullopt;
}

std::vector<NetCgroup> NetCgroups::of(const std::vector<FollowedProcesses::Entry> &processes,
                                      FollowedProcesses &followed, std::chrono::nanoseconds now) {
    std::map<ProcessKey, Place> places;
    std::map<std::uint64_t, NetCgroup> all;
    for (const auto &process : processes) {
        Place &place = places[process.key];
        if (const auto known = places_.find(process.key);
            known != places_.end() && now - known->second.read < keep_) {
            place = known->second;
        } else {
            place = {find(process.key.tgid), now};
            if (place.cgroup) {
                ProcessIdentity identity;
                identity.key = process.key;
                (void)followed.identify(identity);
                place.cgroup->container = identity.container;
                place.cgroup->slurm_job = identity.slurm_job_id;
            }
        }
        if (place.cgroup) {
            all.emplace(place.cgroup->id, *place.cgroup);
        }
    }
    places_ = std::move(places);
    std::vector<NetCgroup> cgroups;
    for (auto &[id, cgroup] : all) {
        cgroups.push_back(std::move(cgroup));
    }
    return cgroups;
}

NetLooks::NetLooks(host_net_bpf &skeleton)
    : skeleton_(skeleton), walks_one_process_(ebpf::has_member("bpf_iter_aux_info", "task")) {}

Result<> NetLooks::look(const std::vector<FollowedProcesses::Entry> &processes,
                        const std::function<void(const net_connection &)> &use) {
    skeleton_.bss->net_look_number++;
    if (auto done = read(processes, use); !done) {
        return done;
    }
    forget_gone(processes);
    for (const auto &process : processes) {
        note(process.key);
    }
    return {};
}

Result<> NetLooks::read(const std::vector<FollowedProcesses::Entry> &processes,
                        const std::function<void(const net_connection &)> &use) {
    const int program = bpf_program__fd(skeleton_.progs.net_look);
    const auto read_through = [&](const Fd &link) {
        return ebpf::read_iterator(link.get(), sizeof(net_connection),
                                   [&](auto bytes) { use(*ebpf::decode<net_connection>(bytes)); });
    };
    if (!walks_one_process_) {
        const auto link = ebpf::link_iterator(program);
        return link ? read_through(*link) : tl::unexpected(link.error());
    }
    for (const auto &process : processes) {
        const auto link = ebpf::link_iterator_of(program, process.key.tgid);
        if (!link && link.error().code == ESRCH) {
            continue;
        }
        if (!link) {
            return tl::unexpected(link.error());
        }
        if (auto done = read_through(*link); !done && done.error().code != ESRCH) {
            return done;
        }
    }
    return {};
}

void NetLooks::note(const ProcessKey &process) {
    std::uint64_t &since_ns = looked_[process.tgid];
    if (since_ns != process.since_ns) {
        since_ns = process.since_ns;
        bpf_map_update_elem(bpf_map__fd(skeleton_.maps.net_looked), &process.tgid, &since_ns,
                            BPF_ANY);
    }
}

void NetLooks::forget_gone(const std::vector<FollowedProcesses::Entry> &processes) {
    std::set<std::uint32_t> running;
    for (const auto &process : processes) {
        running.insert(process.key.tgid);
    }
    std::erase_if(looked_, [&](const auto &one) {
        const bool is_gone = !running.contains(one.first);
        if (is_gone) {
            bpf_map_delete_elem(bpf_map__fd(skeleton_.maps.net_looked), &one.first);
        }
        return is_gone;
    });
}

}  // namespace gpusnoop::probes
