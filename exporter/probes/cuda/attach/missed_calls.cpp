#include "exporter/probes/cuda/attach/missed_calls.h"

#include <algorithm>
#include <utility>

#include "exporter/probes/cuda/attach/functions.h"
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
        if (missed(user, false)) {
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
    if (user.files.size() >= max_files_of_process && !user.files.contains(mapping.file)) {
        version_ += std::exchange(user.was_incomplete, true) ? 0 : 1;
    } else if (user.files.try_emplace(mapping.file, use).second) {
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

void MissedCalls::decide(const FileId &id, bool is_driver, bool is_always_seen) {
    const std::lock_guard lock(mutex_);
    files_.insert_or_assign(
        id, File{is_driver, is_always_seen, now_on(CLOCK_MONOTONIC), now_on(CLOCK_BOOTTIME)});
    version_++;
}

void MissedCalls::attached(const FileId &file, bool is_driver) {
    decide(file, is_driver, false);
}

void MissedCalls::adopted(const FileId &file, bool is_driver) {
    decide(file, is_driver, true);
}

void MissedCalls::has_no_functions(const FileId &file) {
    decide(file, false, true);
}

void MissedCalls::detached(const FileId &file) {
    const std::lock_guard lock(mutex_);
    files_.erase(file);
    version_++;
}

// Was the file attached to when the process mapped what `use` says?
bool MissedCalls::is_seen_from(const File &file, const Use &use, nanoseconds started) {
    if (file.is_always_seen) {
        return true;
    }
    return use.mapped_at ? *use.mapped_at >= file.seen_since : started >= file.seen_since_boottime;
}

bool MissedCalls::is_missed(const FileId &id, const Use &use, nanoseconds started) const {
    const auto file = files_.find(id);
    if (file == files_.end()) {
        // Not decided yet, or it cannot be attached to. Few programs have functions of CUDA.
        return !use.is_program;
    }
    return !is_seen_from(file->second, use, started);
}

// A driver that the process mapped after the files that are known of it.
bool MissedCalls::sees_drivers_mapped_after(const User &user) const {
    bool has_driver = false;
    for (const auto &[id, file] : files_) {
        if (!file.is_driver) {
            continue;
        }
        has_driver = true;
        for (const auto &[used, use] : user.files) {
            if (!is_seen_from(file, use, user.started)) {
                return false;
            }
        }
    }
    return has_driver;
}

// `calls_driver`: which of the attached drivers it calls is known only with its mapping.
bool MissedCalls::missed(const User &user, bool calls_driver) const {
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
    return misses_runtime && !has_driver && !(calls_driver && sees_drivers_mapped_after(user));
}

// A child has its parent's mappings from its start on.
bool MissedCalls::missed_by_child(const User &parent, const Caller &child) const {
    User user{.started = child.started,
              .execs = parent.execs,
              .was_incomplete = false,
              .files = parent.files};
    for (auto &[id, use] : user.files) {
        use.mapped_at.reset();
    }
    return missed(user, child.calls_driver);
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

bool MissedCalls::by(const Caller &caller) const {
    const std::lock_guard lock(mutex_);
    if (const User *const user = find(caller.tgid, caller.started)) {
        return missed(*user, caller.calls_driver);
    }
    if (const User *const parent =
            caller.ppid == 0 ? nullptr : find(caller.ppid, nanoseconds::zero())) {
        return missed_by_child(*parent, caller);
    }
    return missed_by_unknown(caller.started);
}

}  // namespace gpusnoop::probes
