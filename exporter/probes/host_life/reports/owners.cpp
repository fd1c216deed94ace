#include "exporter/probes/host_life/reports/owners.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "exporter/base/read_file.h"
#include "exporter/base/seconds.h"
#include "exporter/processes/cgroup_owner.h"
#include "exporter/processes/user_shares.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

namespace fs = std::filesystem;

// A cgroup without processes for so long is taken for one that nobody removes.
constexpr std::chrono::minutes left_over_after{10};
// Of different causes of ends; the others are "other".
constexpr std::size_t most_causes = 16;
// An owner whose cgroup cannot be seen gets no new process for so long.
constexpr std::chrono::seconds quiet_before_end{10};

// The mounted hierarchies: one of v2, or a directory for each of v1 and perhaps one of v2.
std::vector<std::string> hierarchies_at(const std::string &root) {
    constexpr std::size_t most_hierarchies = 32;
    std::error_code error;
    if (fs::exists(root + "/cgroup.controllers", error)) {
        return {root};
    }
    std::vector<std::string> all;
    for (const auto &entry : fs::directory_iterator(root, error)) {
        std::error_code none;
        if (all.size() < most_hierarchies && entry.is_directory(none)) {
            all.push_back(entry.path());
        }
    }
    return all;
}

// When the directory was made, or soon after that; 0: it is not there.
nanoseconds made_at(const std::string &path) {
    struct stat status{};
    return path.empty() || ::stat(path.c_str(), &status) != 0
               ? nanoseconds::zero()
               : std::chrono::seconds(status.st_ctim.tv_sec) + nanoseconds(status.st_ctim.tv_nsec);
}

nanoseconds monotonic(std::uint64_t ns) {
    return nanoseconds(static_cast<std::int64_t>(ns));
}

// Those with a cgroup of their own: a Slurm job is reported by step.
std::vector<JobOwner> reported_owners_of(const ProcessIdentity &process) {
    std::vector<JobOwner> owners = owners_of(process);
    std::erase_if(owners, [](const JobOwner &owner) {
        return owner.container_id.empty() && owner.slurm_step_id.empty();
    });
    return owners;
}

template <typename T>
void add_known(std::optional<T> &sum, const std::optional<T> &more) {
    if (more) {
        sum = sum.value_or(T{}) + *more;
    }
}

void add_bounds(JobReport::AtLeast &sum, const JobReport::AtLeast &more) {
    sum.memory = sum.memory || more.memory;
    sum.launches = sum.launches || more.launches;
    sum.calls = sum.calls || more.calls;
    sum.waited = sum.waited || more.waited;
    sum.slow = sum.slow || more.slow;
}

// All but the memory. What is not known of one process makes the sum a lower bound.
void add_process(JobReport &sum, const JobReport &process) {
    add_bounds(sum.at_least, process.at_least);
    const bool is_first = sum.processes++ == 0;
    sum.at_least.waited =
        sum.at_least.waited || (!is_first && sum.waited.has_value() != process.waited.has_value());
    sum.launches += process.launches;
    sum.errors += process.errors;
    for (const auto &[kind, bytes] : process.copied_bytes) {
        sum.copied_bytes[kind] += bytes;
    }
    add_known(sum.waited, process.waited);
    add_known(sum.slow_calls, process.slow_calls);
    add_known(sum.hanging_calls, process.hanging_calls);
    for (const auto &[cause, count] : process.causes) {
        const bool has_room = sum.causes.size() < most_causes || sum.causes.contains(cause);
        sum.causes[has_room ? cause : "other"] += count;
    }
    for (const auto &[gpu, held] : process.gpus) {
        sum.gpus[gpu].unfreed_bytes += held.unfreed_bytes;
    }
}

}  // namespace

JobOwners::JobOwners(Node node, Moment started)
    : node_(std::move(node)), started_(started), hierarchies_(hierarchies_at(node_.cgroup_path)) {}

// ---- directories ----

JobOwners::Directory JobOwners::directory_of(std::uint32_t pid, const JobOwner &id) const {
    const auto directories = processes::owner_directories(node_.cgroups_of(pid), id.container_id);
    const std::string &below =
        id.container_id.empty() ? directories.slurm_step : directories.container;
    for (const std::string &hierarchy : hierarchies_) {
        struct stat status{};
        std::string path = hierarchy + below;
        if (!below.empty() && ::stat(path.c_str(), &status) == 0) {
            return {.path = std::move(path), .inode = static_cast<std::uint64_t>(status.st_ino)};
        }
    }
    return {};
}

bool JobOwners::is_there(const Directory &directory) {
    struct stat status{};
    return ::stat(directory.path.c_str(), &status) == 0 && status.st_ino == directory.inode;
}

bool JobOwners::is_left_over(const Owner &owner, nanoseconds now) {
    if (!owner.running.empty() || now - owner.last_change < left_over_after) {
        return false;
    }
    const auto events = read_start(owner.directory.path + "/cgroup.events");
    return events && events->find("populated 0") != std::string::npos;
}

// The process may end at any moment, and then the next one tries again.
void JobOwners::find_directory(Owner &owner, const JobOwner &id, const ProcessIdentity &process,
                               nanoseconds now) {
    if (owner.directory.path.empty() && now - owner.looked >= std::chrono::seconds(1)) {
        owner.looked = now;
        owner.directory = directory_of(process.key.tgid, id);
        const nanoseconds made = made_at(owner.directory.path);
        if (made != nanoseconds::zero()) {
            owner.began = std::min(owner.began, made);
        }
    }
}

// ---- owners ----

JobOwners::Owner *JobOwners::add(const JobOwner &id, const ProcessIdentity &process, Moment now) {
    const std::optional<std::uint32_t> user =
        process.uid ? std::optional(processes::sharing_user(*process.uid)) : std::nullopt;
    const auto counted = of_user_.find(user);
    if ((counted != of_user_.end() && counted->second >= most_of_user) ||
        owners_.size() + leaving_.size() >= most) {
        left_out_++;
        return nullptr;
    }
    of_user_[user]++;
    Owner &owner = owners_[id];
    owner.user = user;
    owner.began = now.real(std::min(monotonic(process.key.since_ns), now.monotonic));
    owner.first_call = std::min(monotonic(process.key.since_ns), now.monotonic);
    JobReport &report = owner.report;
    report.kind =
        id.container_id.empty() ? JobReport::Kind::slurm_step : JobReport::Kind::container;
    report.names = process;
    report.pod_uid = process.pod_uid;
    report.slurm_step_id = process.slurm_step_id;
    report.processes = 0;
    return &owner;
}

// Another cgroup of the same name is another owner: a container can be started again.
JobOwners::Owner *JobOwners::owner_of(const JobOwner &id, const ProcessIdentity &process,
                                      Moment now) {
    auto known = owners_.find(id);
    if (known != owners_.end() && !known->second.directory.path.empty() &&
        !is_there(known->second.directory)) {
        leave(known, now.monotonic);
        known = owners_.end();
    }
    Owner *const owner = known == owners_.end() ? add(id, process, now) : &known->second;
    if (owner != nullptr) {
        find_directory(*owner, id, process, now.monotonic);
    }
    return owner;
}

JobOwners::Owner *JobOwners::owner_of_ended(const JobOwner &id, const GpuProcessTotals &totals,
                                            Moment now) {
    const auto has_it = [&](const auto &entry) {
        return entry.first == id &&
               std::ranges::any_of(entry.second.running, [&](const ProcessKey &key) {
                   return key.tgid == totals.process.key.tgid &&
                          monotonic(key.since_ns) <= totals.ended;
               });
    };
    if (const auto leaving = std::ranges::find_if(leaving_, has_it); leaving != leaving_.end()) {
        return &leaving->second;
    }
    const auto known = owners_.find(id);
    if (known != owners_.end()) {
        return &known->second;
    }
    // One that ended long ago was of an owner that is reported already.
    return now.monotonic - totals.ended > patience ? nullptr : add(id, totals.process, now);
}

void JobOwners::leave(Owners::iterator owner, nanoseconds now) {
    owner->second.gone = now;
    leaving_.emplace_back(owner->first, std::move(owner->second));
    owners_.erase(owner);
}

// ---- processes ----

void JobOwners::on_process(const ProcessIdentity &process, Moment now) {
    for (const JobOwner &id : reported_owners_of(process)) {
        const auto known = owners_.find(id);
        if (known != owners_.end() && !known->second.directory.path.empty() &&
            known->second.running.contains(process.key)) {
            continue;
        }
        Owner *const owner = owner_of(id, process, now);
        if (owner != nullptr && owner->running.insert(process.key).second) {
            owner->last_change = now.monotonic;
        }
    }
}

void JobOwners::on_end(const GpuProcessTotals &totals, const JobReport &report, Moment now) {
    for (const JobOwner &id : reported_owners_of(totals.process)) {
        Owner *const owner = owner_of_ended(id, totals, now);
        if (owner == nullptr) {
            continue;
        }
        std::erase_if(owner->running, [&](const ProcessKey &key) {
            return key.tgid == totals.process.key.tgid && monotonic(key.since_ns) <= totals.ended;
        });
        owner->last_change = now.monotonic;
        owner->first_call = std::min(owner->first_call, monotonic(totals.process.key.since_ns));
        owner->last_ended = std::max(owner->last_ended, totals.ended);
        add_process(owner->report, report);
        const auto owned = std::ranges::find(totals.owned, id, &GpuProcessTotals::Owned::owner);
        // No process of it has allocated any, or it is not known.
        if (owned == totals.owned.end()) {
            owner->report.at_least.memory |= std::ranges::any_of(
                totals.held, [](const auto &gpu) { return gpu.second.peak_bytes > 0; });
            continue;
        }
        if (owned->since != owner->since) {
            for (const auto &[gpu, held] : owner->held) {
                owner->byte_seconds_before[gpu] += held.byte_seconds;
            }
            owner->held.clear();
            owner->since = owned->since;
        }
        for (const auto &[gpu, held] : owned->held) {
            HeldTotals &most = owner->held[gpu];
            most.byte_seconds = std::max(most.byte_seconds, held.byte_seconds);
            JobReport::Gpu &shown = owner->report.gpus[gpu];
            shown.peak_bytes = std::max(shown.peak_bytes, held.peak_bytes);
        }
    }
}

// ---- ends ----

void JobOwners::look(nanoseconds now) {
    auto next = looked_for_ ? owners_.upper_bound(*looked_for_) : owners_.begin();
    for (std::size_t i = std::min(looks, owners_.size()); i > 0; i--) {
        if (next == owners_.end()) {
            next = owners_.begin();
        }
        if (next == owners_.end()) {
            return;  // all are gone
        }
        const auto owner = next++;
        looked_for_ = owner->first;
        const Directory &directory = owner->second.directory;
        if (!directory.path.empty() && (!is_there(directory) || is_left_over(owner->second, now))) {
            leave(owner, now);
        }
    }
}

// Whether nothing more of it will come.
bool JobOwners::is_over(Owner &owner, nanoseconds now) const {
    if (owner.gone && now - *owner.gone > patience) {
        return true;
    }
    if (!owner.gone && now - owner.last_change < quiet_before_end) {
        return false;
    }
    std::erase_if(owner.running,
                  [&](const ProcessKey &key) { return !owner.gone && !node_.knows(key); });
    return owner.running.empty();
}

JobReport JobOwners::final_report(Owner &owner, Moment now) {
    JobReport report = std::move(owner.report);
    const bool is_seen = owner.gone.has_value();
    report.ended = now.real(is_seen ? *owner.gone : owner.last_ended);
    report.lasted = std::max(report.ended - owner.began, nanoseconds::zero());
    report.at_least.lasted = !is_seen;
    for (const auto &[gpu, held] : owner.held) {
        owner.byte_seconds_before[gpu] += held.byte_seconds;
    }
    const double seconds = in_seconds(owner.last_ended - owner.first_call);
    for (auto &[gpu, shown] : report.gpus) {
        shown.mean_bytes =
            seconds > 0 ? static_cast<std::uint64_t>(owner.byte_seconds_before[gpu] / seconds)
                        : shown.peak_bytes;
    }
    return report;
}

std::vector<JobReport> JobOwners::take_ended(Moment now) {
    look(now.monotonic);
    for (auto owner = owners_.begin(); owner != owners_.end();) {
        const auto next = std::next(owner);
        if (owner->second.directory.path.empty() && is_over(owner->second, now.monotonic)) {
            leaving_.emplace_back(owner->first, std::move(owner->second));
            owners_.erase(owner);
        }
        owner = next;
    }
    std::vector<JobReport> ended;
    for (auto leaving = leaving_.begin(); leaving != leaving_.end();) {
        Owner &owner = leaving->second;
        if (!is_over(owner, now.monotonic)) {
            ++leaving;
            continue;
        }
        const auto of_user = of_user_.find(owner.user);
        if (--of_user->second == 0) {
            of_user_.erase(of_user);
        }
        // There may have been processes that nobody saw, or the numbers of one are not known yet.
        if (owner.began < started_.realtime || !owner.running.empty()) {
            add_bounds(
                owner.report.at_least,
                {.memory = true, .launches = true, .calls = true, .waited = true, .slow = true});
        }
        if (owner.report.processes > 0) {
            ended.push_back(final_report(owner, now));
        }
        leaving = leaving_.erase(leaving);
    }
    return ended;
}

}  // namespace gpusnoop::probes
