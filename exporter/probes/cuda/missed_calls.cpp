#include "exporter/probes/cuda/missed_calls.h"

#include <algorithm>
#include <utility>

#include "exporter/probes/cuda/functions.h"
#include "exporter/processes/proc.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

// /proc shows a start in ticks of 10 ms.
constexpr nanoseconds start_tolerance = std::chrono::milliseconds(20);

}  // namespace

void MissedCalls::were_incomplete(std::set<Key> processes) {
    const std::lock_guard lock(mutex_);
    were_incomplete_ = std::move(processes);
}

std::set<MissedCalls::Key> MissedCalls::incomplete() const {
    const std::lock_guard lock(mutex_);
    std::set<Key> all;
    for (const auto &[tgid, user] : users_) {
        if (missed(user)) {
            all.insert({tgid, user.started, user.execs});
        }
    }
    return all;
}

void MissedCalls::used(const ebpf::Mapping &mapping, std::optional<nanoseconds> mapped_at) {
    const std::lock_guard lock(mutex_);
    User &user = users_[mapping.tgid];
    if (user.started != mapping.started || user.execs != mapping.execs) {
        user = {.started = mapping.started,
                .execs = mapping.execs,
                .was_incomplete =
                    were_incomplete_.contains({mapping.tgid, mapping.started, mapping.execs}),
                .files = {}};
    }
    const Use use{mapped_at, mapping.is_program, is_cuda_driver(mapping.name)};
    if (user.files.try_emplace(mapping.file, use).second) {
        version_++;
    }
    if (users_.size() >= look_for_ended_at_) {
        forget_ended();
    }
}

// The number of processes that are known is at most twice that of running ones.
void MissedCalls::forget_ended() {
    std::erase_if(users_, [](const auto &entry) {
        return processes::presence(entry.first, entry.second.started) == processes::Presence::gone;
    });
    look_for_ended_at_ = std::max<std::size_t>(1024, 2 * users_.size());
}

void MissedCalls::decide(const FileId &id, bool is_always_seen) {
    const std::lock_guard lock(mutex_);
    files_.insert_or_assign(id,
                            File{is_always_seen, now_on(CLOCK_MONOTONIC), now_on(CLOCK_BOOTTIME)});
    version_++;
}

void MissedCalls::attached(const FileId &file) {
    decide(file, false);
}

void MissedCalls::adopted(const FileId &file) {
    decide(file, true);
}

void MissedCalls::has_no_functions(const FileId &file) {
    decide(file, true);
}

void MissedCalls::detached(const FileId &file) {
    const std::lock_guard lock(mutex_);
    files_.erase(file);
    version_++;
}

bool MissedCalls::is_missed(const FileId &id, const Use &use, nanoseconds started) const {
    const auto file = files_.find(id);
    if (file == files_.end()) {
        // Not decided yet, or it cannot be attached to. Few programs have functions of CUDA.
        return !use.is_program;
    }
    const auto &[is_always_seen, since, since_boottime] = file->second;
    if (is_always_seen) {
        return false;
    }
    return use.mapped_at ? *use.mapped_at < since : started < since_boottime;
}

bool MissedCalls::missed(const User &user) const {
    if (user.was_incomplete) {
        return true;
    }
    bool misses_runtime = false;
    bool has_driver = false;
    for (const auto &[id, use] : user.files) {
        const bool is_missed_here = is_missed(id, use, user.started);
        if (use.is_driver && is_missed_here) {
            return true;
        }
        has_driver = has_driver || use.is_driver;
        misses_runtime = misses_runtime || is_missed_here;
    }
    return misses_runtime && !has_driver;
}

// A child has its parent's mappings from its start on.
bool MissedCalls::missed_by_child(const User &parent, nanoseconds forked) const {
    User child{
        .started = forked, .execs = parent.execs, .was_incomplete = false, .files = parent.files};
    for (auto &[id, use] : child.files) {
        use.mapped_at.reset();
    }
    return missed(child);
}

bool MissedCalls::missed_by_unknown(nanoseconds started) const {
    return std::ranges::any_of(files_, [&](const auto &entry) {
        return !entry.second.is_always_seen && started <= entry.second.seen_since_boottime;
    });
}

const MissedCalls::User *MissedCalls::find(std::uint32_t tgid, nanoseconds started) const {
    const auto user = users_.find(tgid);
    const bool is_it = user != users_.end() &&
                       (started == nanoseconds::zero() ||
                        std::chrono::abs(user->second.started - started) <= start_tolerance);
    return is_it ? &user->second : nullptr;
}

bool MissedCalls::by(std::uint32_t tgid, nanoseconds started, std::uint32_t ppid) const {
    const std::lock_guard lock(mutex_);
    if (const User *const user = find(tgid, started)) {
        return missed(*user);
    }
    if (const User *const parent = ppid == 0 ? nullptr : find(ppid, nanoseconds::zero())) {
        return missed_by_child(*parent, started);
    }
    return missed_by_unknown(started);
}

}  // namespace gpusnoop::probes
