#include "exporter/probes/syscall_aggregator.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "exporter/base/syscall_names.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

// Of entries that were read twice, the second has more in it.
void keep_last_of_each(std::vector<std::pair<syscall_key, syscall_counts>> &entries) {
    const auto key = [](const auto &entry) {
        const syscall_key &of = entry.first;
        return std::tuple(of.since_ns, of.tgid, of.number, of.shard);
    };
    std::ranges::reverse(entries);
    std::ranges::stable_sort(entries, {}, key);
    const auto doubles = std::ranges::unique(entries, {}, key);
    entries.erase(doubles.begin(), doubles.end());
}

}  // namespace

SyscallAggregator::SyscallAggregator(SyscallSettings settings,
                                     std::function<bool(ProcessIdentity &)> look_up)
    : settings_(std::move(settings)),
      family_set_(settings_.budget, settings_.pid_label),
      families_(make_syscall_families(family_set_)),
      processes_(settings_.pid_label, std::move(look_up)) {}

void SyscallAggregator::on_record(std::span<const std::byte> bytes) {
    if (!processes_.on_record(bytes)) {
        undecodable_++;
    }
}

std::string syscall_label(std::uint32_t number) {
    if (number == SYSCALL_COMPAT) {
        return "compat";
    }
    if (number >= SYSCALL_NUMBERS) {
        return "unknown";
    }
    const auto name = syscall_name(number);
    return name ? std::string(*name) : "syscall_" + std::to_string(number);
}

SyscallAggregator::Counted &SyscallAggregator::counted(const ProcessKey &key,
                                                       std::uint16_t number) {
    auto &calls = of_[key].calls;
    const auto found = calls.find(number);
    if (found != calls.end()) {
        return found->second;
    }
    const TracedProcess &process = processes_.of(key);
    auto values = process.labels;
    values.push_back(syscall_label(number));
    return calls
        .emplace(number, Counted{.calls = families_.calls.slot(process.owner, values),
                                 .duration = families_.durations.slot(process.owner, values)})
        .first->second;
}

void SyscallAggregator::on_reading(SyscallReading reading) {
    keep_last_of_each(reading.counts);
    std::vector<Counted *> touched;
    for (const auto &[key, counts] : reading.counts) {
        Counted &one = counted({key.tgid, key.since_ns}, key.number);
        if (!std::exchange(one.is_in_reading, true)) {
            touched.push_back(&one);
        }
        one.now.nanoseconds += counts.nanoseconds;
        for (std::size_t i = 0; i < SYSCALL_BUCKETS; i++) {
            one.now.calls[i] += counts.calls[i];
        }
    }
    for (Counted *const one : touched) {
        std::array<std::uint64_t, SYSCALL_BUCKETS + 1> added{};
        for (std::size_t i = 0; i < SYSCALL_BUCKETS; i++) {
            added[i] = one->now.calls[i] - one->last.calls[i];
        }
        families_.calls.add(one->calls,
                            std::accumulate(added.begin(), added.end(), std::uint64_t{0}));
        added[SYSCALL_BUCKETS] = one->now.nanoseconds - one->last.nanoseconds;
        families_.durations.observe_all(one->duration, added);
        one->last = std::exchange(one->now, {});
        one->is_in_reading = false;
    }
    for (const auto &[key, count] : reading.errors) {
        const ProcessKey of{key.tgid, key.since_ns};
        auto &errors = of_[of].errors;
        auto found = errors.find({key.number, key.error});
        if (found == errors.end()) {
            const TracedProcess &process = processes_.of(of);
            auto values = process.labels;
            values.push_back(syscall_label(key.number));
            values.emplace_back(errno_name(key.error));
            found = errors
                        .emplace(std::pair(key.number, key.error),
                                 CountedError{families_.errors.slot(process.owner, values)})
                        .first;
        }
        families_.errors.add(found->second.slot, count - found->second.last);
        found->second.last = count;
    }
}

std::vector<ProcessKey> SyscallAggregator::tidy(nanoseconds read_at, nanoseconds now) {
    auto ended = processes_.take_ended(read_at);
    for (const ProcessKey &key : ended) {
        of_.erase(key);
    }
    family_set_.rebalance();
    for (const series::Owner owner : processes_.expire(now, settings_.retention)) {
        family_set_.remove(owner);
    }
    return ended;
}

}  // namespace gpusnoop::probes
