#include "exporter/probes/frame/process_table.h"

#include <algorithm>
#include <string_view>

#include "bpf/lib/traced.h"
#include "exporter/kernel/record.h"
#include "exporter/probes/budget.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

// There are hundreds of these kernel threads, which take whatever work there is.
std::string common_name(std::string comm) {
    constexpr std::string_view worker = "kworker";
    return comm.starts_with(std::string(worker) + "/") ? std::string(worker) : std::move(comm);
}

}  // namespace

SeriesSettings series_settings(const config::Config &config) {
    return {.budget = budget_of(config.series),
            .pid_label = config.labels.pid,
            .retention = config.series.retention};
}

ProcessTableBase::ProcessTableBase(series::FamilySet &families, const SeriesSettings &settings,
                                   nanoseconds grace)
    : families_(families), settings_(settings), grace_(grace) {}

bool ProcessTableBase::on_record(std::span<const std::byte> bytes) {
    if (const auto record = kernel::decode<traced_came_record>(bytes)) {
        if (record->head.type != TRACED_CAME) {
            return false;
        }
        const ProcessKey key{record->head.tgid, record->head.since_ns};
        // What it did may have come first, and is under other labels: it stays together.
        if (!processes_.contains(key)) {
            KnownProcess &process = add(key);
            take(process, record->identity);
            settings_.look_up(process);
            own_series(process, process.comm);
        }
        return true;
    }
    const auto record = kernel::decode<traced_record>(bytes);
    if (!record || record->type != TRACED_WENT) {
        return false;
    }
    const auto found = processes_.find({record->tgid, record->since_ns});
    if (found != processes_.end() && !found->second->ended) {
        found->second->ended = nanoseconds(static_cast<std::int64_t>(record->at_ns));
    }
    return true;
}

KnownProcess &ProcessTableBase::find(const ProcessKey &key) {
    if (const auto found = processes_.find(key); found != processes_.end()) {
        return *found->second;
    }
    KnownProcess &process = add(key);
    settings_.look_up(process);
    own_series(process, process.comm);
    return process;
}

KnownProcess &ProcessTableBase::find(std::uint32_t tgid, const process_identity &identity) {
    const auto comm_end = std::find(std::begin(identity.comm), std::end(identity.comm), '\0');
    const auto [found, is_new] = described_.try_emplace(
        {tgid, identity.start_boottime_ns, std::string(std::begin(identity.comm), comm_end)});
    if (is_new) {
        KnownProcess &process = add({tgid, ++numbers_});
        take(process, identity);
        own_series(process, tgid == 0 ? "interrupt" : common_name(process.comm));
        found->second = &process;
    }
    return *found->second;
}

KnownProcess &ProcessTableBase::add(const ProcessKey &key) {
    std::unique_ptr<KnownProcess> &process = processes_[key];
    process = make();
    process->key = key;
    return *process;
}

void ProcessTableBase::own_series(KnownProcess &process, std::string comm) {
    process.labels = {std::move(comm), process.container};
    if (settings_.pid_label) {
        process.labels.push_back(std::to_string(process.key.tgid));
    }
    process.owner = groups_.join(process.labels);
}

void ProcessTableBase::scan(nanoseconds now) {
    std::vector<std::pair<ProcessKey, nanoseconds>> running;
    for (const auto &[key, process] : processes_) {
        if (!process->ended && key.tgid != 0) {
            running.emplace_back(key, process->started);
        }
    }
    for (const ProcessKey &key : ended_.look(running)) {
        processes_.at(key)->ended = now;
    }
}

std::vector<ProcessKey> ProcessTableBase::tidy(nanoseconds now) {
    const auto is_gone = [&](const KnownProcess &process) {
        return process.ended && *process.ended <= now - grace_;
    };
    std::erase_if(described_, [&](const auto &entry) { return is_gone(*entry.second); });
    std::vector<ProcessKey> gone;
    std::erase_if(processes_, [&](const auto &entry) {
        const KnownProcess &process = *entry.second;
        if (!is_gone(process)) {
            return false;
        }
        groups_.leave(process.labels, *process.ended);
        gone.push_back(entry.first);
        return true;
    });
    families_.rebalance();
    for (const series::Owner owner : groups_.expire(now, settings_.retention)) {
        families_.remove(owner);
    }
    return gone;
}

}  // namespace gpusnoop::probes
