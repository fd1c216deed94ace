#include "exporter/status/past.h"

#include <utility>

namespace gpusnoop::status {

bool Past::is_due(std::chrono::nanoseconds now) const {
    const std::lock_guard lock(mutex_);
    return !sampled_ || now - *sampled_ >= interval;
}

void Past::add(std::chrono::nanoseconds now, const std::vector<probes::ProcessSample> &samples) {
    const std::lock_guard lock(mutex_);
    sampled_ = now;
    std::map<probes::ProcessKey, std::deque<Moment>> processes;
    for (const probes::ProcessSample &sample : samples) {
        if (processes.size() == most_processes) {
            break;
        }
        auto known = processes_.extract(sample.key);
        std::deque<Moment> &past = processes[sample.key];
        if (known) {
            past = std::move(known.mapped());
        }
        past.push_back({.at = now, .bytes = sample.bytes, .launches = sample.launches});
        if (past.size() > most_samples) {
            past.pop_front();
        }
    }
    processes_ = std::move(processes);
}

ProcessPast Past::of(const probes::ProcessSample &process, std::chrono::nanoseconds now) const {
    ProcessPast past;
    const std::lock_guard lock(mutex_);
    const auto found = processes_.find(process.key);
    if (found != processes_.end()) {
        // The rate is over an interval or two.
        const std::deque<Moment> &all = found->second;
        const Moment &base =
            all.size() > 1 && now - all.back().at < interval ? *(all.end() - 2) : all.back();
        const double seconds = std::chrono::duration<double>(now - base.at).count();
        if (seconds >= 1 && process.launches >= base.launches) {
            past.launches_per_second =
                static_cast<double>(process.launches - base.launches) / seconds;
        }
        for (const Moment &moment : all) {
            past.held.push_back(moment.bytes);
        }
    }
    past.held.push_back(process.bytes);
    return past;
}

}  // namespace gpusnoop::status
