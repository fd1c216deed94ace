#include "exporter/probes/syscall/aggregator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <tuple>

#include "exporter/ebpf/maps/ring.h"
#include "exporter/symbols/names/syscall_names.h"

namespace gpusnoop::probes {

namespace {

// If an entry was read twice, the second has the higher counts.
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

SyscallFamilies make_syscall_families(series::FamilySet &set) {
    return {
        .calls = set.counter("syscalls_total",
                             "System calls of traced processes that have returned.", {{"syscall"}}),
        .errors = set.counter("syscall_errors_total",
                              "System calls that returned an error, by name of the error.",
                              {{"syscall"}, {"error"}}),
        .durations = set.histogram("syscall_duration_seconds",
                                   "Time inside each system call, including calls that failed or "
                                   "only waited.",
                                   {{"syscall"}}, SYSCALL_BOUNDS, 1e9),
    };
}

bool SyscallAggregator::on_record(std::span<const std::byte> bytes, const OnSyscall &trace) {
    if (processes_.on_record(bytes)) {
        return true;
    }
    const auto open = ebpf::decode<syscall_open_record>(bytes);
    const auto call = open ? open->call : ebpf::decode<syscall_record>(bytes);
    if (!trace || !call || call->head.type != SYSCALL_RECORD) {
        return false;
    }
    const std::string_view path =
        open ? std::string_view(open->path, ::strnlen(open->path, sizeof(open->path))) : "";
    trace(*call, path, processes_.of({call->head.tgid, call->head.since_ns}));
    return true;
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
    Process &process = processes_.of(key);
    const auto found = process.calls.find(number);
    if (found != process.calls.end()) {
        return found->second;
    }
    auto values = process.labels;
    values.push_back(syscall_label(number));
    return process.calls
        .emplace(number, Counted{.calls = of_.calls.slot(process.owner, values),
                                 .duration = of_.durations.slot(process.owner, values)})
        .first->second;
}

SyscallAggregator::CountedError &SyscallAggregator::counted_error(const syscall_error_key &key) {
    Process &process = processes_.of({key.tgid, key.since_ns});
    const std::pair place(key.number, key.error);
    const auto found = process.errors.find(place);
    if (found != process.errors.end()) {
        return found->second;
    }
    auto values = process.labels;
    values.push_back(syscall_label(key.number));
    values.emplace_back(errno_name(key.error));
    return process.errors.emplace(place, CountedError{of_.errors.slot(process.owner, values)})
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
        of_.calls.add(one->calls, std::accumulate(added.begin(), added.end(), std::uint64_t{0}));
        added[SYSCALL_BUCKETS] = one->now.nanoseconds - one->last.nanoseconds;
        of_.durations.observe_all(one->duration, added);
        one->last = std::exchange(one->now, {});
        one->is_in_reading = false;
    }
    for (const auto &[key, count] : reading.errors) {
        CountedError &one = counted_error(key);
        of_.errors.add(one.slot, count - one.last);
        one.last = count;
    }
}

}  // namespace gpusnoop::probes
