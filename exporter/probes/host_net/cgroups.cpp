#include "exporter/probes/host_net/cgroups.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>

#include "exporter/processes/proc.h"
#include "exporter/system/cgroup_lines.h"

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

}  // namespace gpusnoop::probes
