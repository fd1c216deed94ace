#include "exporter/processes/cgroup_owner.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "exporter/base/text/text.h"
#include "exporter/system/cgroup_limits.h"

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

SlurmStep slurm_step_of(Path path) {
    for (std::size_t i = 0; i < path.size(); i++) {
        const std::string_view job = is_sluid(path[i]) ? path[i] : number_behind("job_", path[i]);
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

// The shortest beginning of the path that is `wanted`, of those that are not too deep.
std::string first_directory(Path path, const auto &wanted) {
    constexpr std::size_t deepest = 64;
    std::string directory;
    for (std::size_t levels = 1; levels <= std::min(path.size(), deepest); levels++) {
        directory += '/';
        directory += path[levels - 1];
        if (wanted(path.first(levels))) {
            return directory;
        }
    }
    return {};
}

int completeness(const ContainerIdentity &identity) {
    return (identity.container_id.empty() ? 0 : 1) + (identity.pod_uid.empty() ? 0 : 1);
}

}  // namespace

bool is_sluid(std::string_view name) {
    // An "s" and 13 digits of Crockford's base 32.
    constexpr std::string_view digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    return name.size() == 14 && name.starts_with('s') &&
           name.substr(1).find_first_not_of(digits) == std::string_view::npos;
}

std::string_view slurm_job_id_in(std::string_view variable) {
    constexpr std::size_t max_digits = 10;  // of 32 bits
    const std::string_view number = number_behind("SLURM_JOB_ID=", variable);
    return number.size() <= max_digits ? number : std::string_view();
}

CgroupOwner owner_of(Path path, const std::function<bool(std::size_t)> &not_root) {
    std::size_t trusted = 0;
    while (trusted < path.size() && !not_root(trusted++)) {
    }
    return {.container = container_in(path.first(trusted)),
            .slurm = slurm_step_of(path.first(trusted)),
            .systemd_unit = systemd_unit_of(path)};
}

OwnerDirectories owner_directories(std::string_view content, std::string_view container_id) {
    OwnerDirectories found;
    for (const CgroupLine &line : cgroup_lines(content.substr(0, max_cgroup_file_bytes))) {
        const std::vector<std::string_view> path = cgroup_directories(line.path);
        if (leads_out(line.path)) {
            continue;
        }
        if (found.container.empty() && !container_id.empty()) {
            found.container = first_directory(path, [&](Path beginning) {
                return container_in(beginning).container_id == container_id;
            });
        }
        const SlurmStep step = slurm_step_of(path);
        if (found.slurm_step.empty() && !step.step_id.empty()) {
            found.slurm_step = first_directory(
                path, [&](Path beginning) { return slurm_step_of(beginning) == step; });
        }
    }
    return found;
}

CgroupOwner parse_cgroup_owner(std::string_view content, const NotRoot &not_root) {
    CgroupOwner owner;
    for (const CgroupLine &line : cgroup_lines(content.substr(0, max_cgroup_file_bytes))) {
        const std::vector<std::string_view> path = cgroup_directories(line.path);
        CgroupOwner found = owner_of(path, [&](std::size_t i) {
            return not_root(line.controllers, Path(path).first(i + 1));
        });
        if (completeness(found.container) > completeness(owner.container)) {
            owner.container = std::move(found.container);
        }
        if (owner.slurm.job_id.empty()) {
            owner.slurm = std::move(found.slurm);
        }
        if (owner.systemd_unit.empty()) {
            owner.systemd_unit = std::move(found.systemd_unit);
        }
    }
    return owner;
}

}  // namespace gpusnoop::processes
