#include "exporter/probes/traced_processes.h"

#include <algorithm>

#include "exporter/kernel/record.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

bool TracedProcesses::on_record(std::span<const std::byte> bytes) {
    if (const auto record = kernel::decode<traced_came_record>(bytes)) {
        if (record->head.type != TRACED_CAME) {
            return false;
        }
        came(*record);
        return true;
    }
    const auto record = kernel::decode<traced_record>(bytes);
    if (!record || record->type != TRACED_WENT) {
        return false;
    }
    assume_ended({record->tgid, record->since_ns},
                 nanoseconds(static_cast<std::int64_t>(record->at_ns)));
    return true;
}

void TracedProcesses::came(const traced_came_record &record) {
    const ProcessKey key{record.head.tgid, record.head.since_ns};
    auto &process = processes_[key];
    if (process != nullptr) {
        return;  // what it did came first, and is under other labels: it stays together
    }
    process = std::make_unique<TracedProcess>();
    process->key = key;
    take(*process, record.identity);
    look_up_(*process);
    join(*process);
}

const TracedProcess &TracedProcesses::of(const ProcessKey &key) {
    auto &process = processes_[key];
    if (process == nullptr) {
        process = std::make_unique<TracedProcess>();
        process->key = key;
        look_up_(*process);
        join(*process);
    }
    return *process;
}

void TracedProcesses::join(TracedProcess &process) {
    process.labels = {process.comm, process.container};
    if (pid_label_) {
        process.labels.push_back(std::to_string(process.key.tgid));
    }
    process.owner = groups_.join(process.labels);
}

std::vector<std::pair<ProcessKey, nanoseconds>> TracedProcesses::running() const {
    std::vector<std::pair<ProcessKey, nanoseconds>> running;
    for (const auto &[key, process] : processes_) {
        if (!process->ended) {
            running.emplace_back(key, process->started);
        }
    }
    return running;
}

void TracedProcesses::assume_ended(const ProcessKey &key, nanoseconds now) {
    const auto found = processes_.find(key);
    if (found != processes_.end() && !found->second->ended) {
        found->second->ended = now;
    }
}

std::vector<ProcessKey> TracedProcesses::take_ended(nanoseconds now) {
    std::vector<ProcessKey> ended;
    std::erase_if(processes_, [&](const auto &entry) {
        const TracedProcess &process = *entry.second;
        if (!process.ended || *process.ended > now) {
            return false;
        }
        groups_.leave(process.labels, *process.ended);
        ended.push_back(entry.first);
        return true;
    });
    return ended;
}

}  // namespace gpusnoop::probes
