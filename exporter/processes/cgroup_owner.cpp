#include "exporter/processes/cgroup_owner.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "exporter/base/text.h"
#include "exporter/processes/cgroup.h"

namespace gpusnoop::processes {

namespace {

using Path = std::span<const std::string_view>;

// What follows the prefix, if it is a number.
std::string_view number_behind(std::string_view prefix, std::string_view name) {
    if (!name.starts_with(prefix)) {
        return {};
    }
    name.remove_prefix(prefix.size());
    const bool is_number = std::ranges::all_of(name, is_digit);
    return is_number ? name : std::string_view();
}

bool is_slurmstepd(std::string_view name) {
    return name == "slurmstepd.scope" || name.ends_with("_slurmstepd.scope");
}

// Did slurmstepd make the directory at `i`, by what is above it?
bool is_by_slurm(Path path, std::size_t i) {
    const auto above = [&](std::size_t levels) {
        return levels <= i ? path[i - levels] : std::string_view();
    };
    const bool by_v1 = !number_behind("uid_", above(1)).empty() && above(2).starts_with("slurm");
    return by_v1 || is_slurmstepd(above(1)) || is_slurmstepd(above(2));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        if (end > 0) {
            parts.push_back(text.substr(0, end));
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

}  // namespace

SlurmStep slurm_step_of(Path path) {
    for (std::size_t i = 0; i < path.size(); i++) {
        const std::string_view job = number_behind("job_", path[i]);
        if (job.empty() || !is_by_slurm(path, i)) {
            continue;
        }
        SlurmStep step{.job_id = std::string(job), .step_id = {}};
        constexpr std::string_view prefix = "step_";
        if (i + 1 < path.size() && path[i + 1].starts_with(prefix)) {
            step.step_id = path[i + 1].substr(prefix.size());
        }
        return step;
    }
    return {};
}

std::string systemd_unit_of(Path path) {
    for (std::size_t i = path.size(); i-- > 0;) {
        if (path[i].ends_with(".service") || path[i].ends_with(".scope")) {
            return std::string(path[i]);
        }
    }
    return {};
}

CgroupOwner parse_cgroup_owner(std::string_view content) {
    CgroupOwner owner;
    for (std::string_view line : split(content.substr(0, max_cgroup_file_bytes), '\n')) {
        // hierarchy-id:controllers:path, and the path may have colons of its own.
        line.remove_prefix(std::min(line.find(':') + 1, line.size()));
        line.remove_prefix(std::min(line.find(':') + 1, line.size()));
        const std::vector<std::string_view> path = split(line, '/');
        if (owner.slurm.job_id.empty()) {
            owner.slurm = slurm_step_of(path);
        }
        if (owner.systemd_unit.empty()) {
            owner.systemd_unit = systemd_unit_of(path);
        }
    }
    return owner;
}

}  // namespace gpusnoop::processes
