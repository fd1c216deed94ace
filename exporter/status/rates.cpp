#include "exporter/status/rates.h"

#include <iterator>
#include <numeric>
#include <utility>

namespace gpusnoop::status {

namespace {

double per_second(std::uint64_t before, std::uint64_t now, double seconds) {
    // A reloaded probe counts from 0.
    return now > before ? static_cast<double>(now - before) / seconds : 0;
}

}  // namespace

Counts counts_of(const probes::Health &probe) {
    return {.events = probe.account.events,
            .lost = std::accumulate(std::begin(probe.account.lost), std::end(probe.account.lost),
                                    probe.undecodable + probe.runs.skipped + probe.forgotten)};
}

bool Rates::is_due(std::chrono::nanoseconds now) const {
    const std::lock_guard lock(mutex_);
    return samples_.empty() || now - samples_.back().at >= interval;
}

void Rates::add(std::chrono::nanoseconds now, const std::vector<probes::Health> &probes) {
    Sample sample{now, {}};
    for (const probes::Health &probe : probes) {
        sample.counts[probe.name] = counts_of(probe);
    }
    const std::lock_guard lock(mutex_);
    samples_.push_back(std::move(sample));
    while (samples_.size() > 1 && now - samples_[1].at >= interval) {
        samples_.pop_front();
    }
}

CurrentRates Rates::current(std::chrono::nanoseconds now,
                            const std::vector<probes::Health> &probes) const {
    const std::lock_guard lock(mutex_);
    // The newest sample that is old enough, or else the oldest.
    const Sample *base = nullptr;
    for (const Sample &sample : samples_) {
        if (base == nullptr || now - sample.at >= interval) {
            base = &sample;
        }
    }
    CurrentRates rates;
    if (base == nullptr || now <= base->at) {
        return rates;
    }
    rates.window = now - base->at;
    const double seconds = std::chrono::duration<double>(rates.window).count();
    for (const probes::Health &probe : probes) {
        const Counts counts = counts_of(probe);
        const auto before = base->counts.find(probe.name);
        const Counts since = before == base->counts.end() ? Counts{} : before->second;
        rates.probes[probe.name] = {per_second(since.events, counts.events, seconds),
                                    per_second(since.lost, counts.lost, seconds)};
    }
    return rates;
}

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
