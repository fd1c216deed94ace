#include "exporter/probes/frame/processes/process_table.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "bpf/lib/traced.h"
#include "exporter/base/text/text.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/probes/frame/budget.h"

namespace gpusnoop::probes {

series::Owner ProcessGroups::join(const series::LabelValues &labels) {
    const auto [group, is_new] = groups_.try_emplace(labels, Group{next_owner_});
    if (is_new) {
        next_owner_++;
    }
    group->second.processes++;
    return group->second.owner;
}

void ProcessGroups::leave(const series::LabelValues &labels, std::chrono::nanoseconds at) {
    Group &group = groups_.at(labels);
    group.processes--;
    group.idle_since = std::max(group.idle_since, at);
}

std::vector<series::Owner> ProcessGroups::expire(std::chrono::nanoseconds now,
                                                 std::chrono::nanoseconds retention) {
    std::vector<series::Owner> expired;
    std::erase_if(groups_, [&](const auto &entry) {
        const Group &group = entry.second;
        if (group.processes > 0 || now - group.idle_since < retention) {
            return false;
        }
        expired.push_back(group.owner);
        return true;
    });
    return expired;
}

using std::chrono::nanoseconds;

namespace {

// There are hundreds of these kernel threads, and any of them may do any work.
std::string common_name(std::string comm) {
    constexpr std::string_view worker = "kworker";
    return comm.starts_with(std::string(worker) + "/") ? std::string(worker) : std::move(comm);
}

}  // namespace

SeriesSettings series_settings(const config::Config &config) {
    return {.budget = budget_of(config),
            .pid_label = config.labels.pid,
            .script_label = config.labels.script,
            .retention = config.series.retention};
}

ProcessTableBase::ProcessTableBase(series::FamilySet &families, SeriesSettings settings,
                                   nanoseconds grace)
    : families_(families), settings_(std::move(settings)), grace_(grace) {}

KnownProcess *ProcessTableBase::start(const ProcessKey &key, const process_identity &identity,
                                      const process_details &details) {
    if (contains(key)) {
        return nullptr;
    }
    KnownProcess &process = add(key);
    take(process, identity, &details);
    settings_.look_up(process);
    own_series(process, process.comm);
    return &process;
}

void ProcessTableBase::end(const ProcessKey &key, nanoseconds at) {
    KnownProcess *const process = find(key);
    if (process != nullptr && !process->ended) {
        process->ended = at;
    }
}

bool ProcessTableBase::on_record(std::span<const std::byte> bytes) {
    if (const auto record = ebpf::decode<traced_start_record>(bytes)) {
        if (record->head.type != PROCESS_STARTED) {
            return false;
        }
        (void)start({record->head.tgid, record->head.since_ns}, record->identity, record->details);
        return true;
    }
    const auto record = ebpf::decode<traced_end_record>(bytes);
    if (!record || record->head.type != PROCESS_ENDED) {
        return false;
    }
    end({record->head.tgid, record->head.since_ns},
        nanoseconds(static_cast<std::int64_t>(record->head.at_ns)));
    return true;
}

KnownProcess *ProcessTableBase::find(const ProcessKey &key) const {
    if (recent_ != nullptr && recent_->key == key) {
        return recent_;
    }
    const auto found = processes_.find(key);
    if (found == processes_.end()) {
        return nullptr;
    }
    return recent_ = found->second.get();
}

KnownProcess &ProcessTableBase::of(const ProcessKey &key) {
    if (KnownProcess *const known = find(key)) {
        return *known;
    }
    KnownProcess &process = add(key);
    settings_.look_up(process);
    own_series(process, process.comm);
    recent_ = &process;
    return process;
}

KnownProcess &ProcessTableBase::of(std::uint32_t tgid, const process_identity &identity,
                                   const process_details *details) {
    const auto comm_end = std::find(std::begin(identity.comm), std::end(identity.comm), '\0');
    const auto [found, is_new] =
        described_.try_emplace({tgid, identity.start_boottime_ns, identity.execs,
                                std::string(std::begin(identity.comm), comm_end)});
    if (is_new) {
        KnownProcess &process = add({tgid, ++numbers_});
        if (const KnownProcess *const former = named_before(found)) {
            take_details(process, *former);
        }
        take(process, identity, details);
        own_series(process, tgid == 0 ? "interrupt" : common_name(process.comm));
        found->second = &process;
    }
    return *found->second;
}

// Only the first record of each thread has the details, and a program may change its name later.
const KnownProcess *ProcessTableBase::named_before(
    std::map<Described, KnownProcess *>::const_iterator now) const {
    const auto is_same = [&](auto other) {
        return other->first.tgid == now->first.tgid &&
               other->first.started_ns == now->first.started_ns &&
               other->first.execs == now->first.execs;
    };
    if (now != described_.begin() && is_same(std::prev(now))) {
        return std::prev(now)->second;
    }
    const auto next = std::next(now);
    return next != described_.end() && is_same(next) ? next->second : nullptr;
}

KnownProcess &ProcessTableBase::add(const ProcessKey &key) {
    std::unique_ptr<KnownProcess> &process = processes_[key];
    process = make();
    process->key = key;
    return *process;
}

void ProcessTableBase::own_series(KnownProcess &process, std::string comm) {
    if (!settings_.script_label) {
        process.script.clear();
    }
    if (process.uid) {
        process.user = to_valid_utf8(users_.of(*process.uid), max_label_bytes);
    }
    process.labels = {std::move(comm), process.script, process.container, process.slurm_job_id};
    if (settings_.pid_label) {
        process.labels.push_back(std::to_string(process.key.tgid));
    }
    process.owner = groups_.join(process.labels);
}

ProcessTableBase::Row ProcessTableBase::row_of(const KnownProcess *process) const {
    if (process != nullptr) {
        return {process->labels, process->owner};
    }
    Row unknown{{"unknown", "", "", ""}, 0};
    if (settings_.pid_label) {
        unknown.labels.emplace_back("unknown");
    }
    return unknown;
}

std::vector<std::pair<ProcessKey, nanoseconds>> ProcessTableBase::running() const {
    std::vector<std::pair<ProcessKey, nanoseconds>> running;
    for (const auto &[key, process] : processes_) {
        if (!process->ended && key.tgid != 0) {
            running.emplace_back(key, process->started);
        }
    }
    return running;
}

void ProcessTableBase::scan(nanoseconds now) {
    for (const ProcessKey &key : find_ended()) {
        end(key, now);
    }
}

std::vector<std::unique_ptr<KnownProcess>> ProcessTableBase::take_if(
    const std::function<bool(KnownProcess &)> &is_over) {
    std::vector<std::unique_ptr<KnownProcess>> gone;
    for (auto entry = processes_.begin(); entry != processes_.end();) {
        if (!is_over(*entry->second)) {
            ++entry;
            continue;
        }
        groups_.leave(entry->second->labels, *entry->second->ended);
        gone.push_back(std::move(entry.value()));
        entry = processes_.erase(entry);
    }
    const auto is_gone = [&](const auto &entry) {
        return std::ranges::find(gone, entry.second, &std::unique_ptr<KnownProcess>::get) !=
               gone.end();
    };
    std::erase_if(described_, is_gone);
    recent_ = nullptr;
    return gone;
}

std::vector<series::Owner> ProcessTableBase::expire(nanoseconds now) {
    auto expired = groups_.expire(now, settings_.retention);
    for (const series::Owner owner : expired) {
        families_.remove(owner);
    }
    return expired;
}

std::vector<ProcessKey> ProcessTableBase::tidy(nanoseconds now) {
    std::vector<ProcessKey> gone;
    for (const auto &process : take_if([&](auto &one) { return is_over(one, now); })) {
        gone.push_back(process->key);
    }
    families_.rebalance();
    (void)expire(now);
    return gone;
}

}  // namespace gpusnoop::probes
