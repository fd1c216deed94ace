#include "exporter/probes/host_time/aggregator.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>

#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/host_time/calls.h"
#include "exporter/probes/host_time/grown.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t last_node = HOST_NODES - 1;

std::span<std::uint64_t> numbers_of(host_times &times) {
    return {reinterpret_cast<std::uint64_t *>(&times), HOST_TIME_WORDS};
}
std::span<const std::uint64_t> numbers_of(const host_times &times) {
    return {reinterpret_cast<const std::uint64_t *>(&times), HOST_TIME_WORDS};
}

void add_up(host_times &sum, const host_times &times) {
    std::ranges::transform(numbers_of(sum), numbers_of(times), numbers_of(sum).begin(),
                           std::plus<>());
}

std::uint64_t off_in(const host_times &times, std::size_t phase) {
    const std::span states(times.off_ns[phase]);
    return std::accumulate(states.begin(), states.end(), std::uint64_t{0});
}

std::string node_name(std::size_t node) {
    return node == last_node ? "other" : std::to_string(node);
}

// The thread runs on since it was last given a CPU.
std::uint64_t open_run(const host_times &times) {
    std::uint64_t known =
        std::accumulate(std::begin(times.node_ns), std::end(times.node_ns), std::uint64_t{0});
    for (std::size_t phase = 0; phase < HOST_PHASE_COUNT; phase++) {
        known += off_in(times, phase);
    }
    return difference(times.wall_ns, known);
}

std::map<ProcessKey, HostTimeSum> sums_of(const HostTimeReading &reading) {
    std::map<ProcessKey, HostTimeSum> sums;
    for (const auto &[process, times] : reading.past) {
        add_up(sums[{process.tgid, process.since_ns}].times, times);
    }
    for (const host_thread_record &thread : reading.threads) {
        HostTimeSum &sum = sums[{thread.process.tgid, thread.process.since_ns}];
        add_up(sum.times, thread.times);
        sum.threads++;
        const std::size_t node =
            thread.cpu < reading.nodes.size() ? reading.nodes[thread.cpu] : last_node;
        sum.open_ns[std::min(node, last_node)] += open_run(thread.times);
    }
    return sums;
}

}  // namespace

HostTimeFamilies make_host_time_families(series::FamilySet &set) {
    return {
        .seconds = set.counter("host_launch_thread_seconds_total",
                               "Wall time of threads that have submitted work to a GPU, by what "
                               "they are inside of in CUDA, and by what they do or wait for.",
                               {{"phase", true}, {"state", true}}, 1e9),
        .threads = set.gauge("host_launch_threads",
                             "Running threads that have submitted work to a GPU.", {}),
        .cpu_seconds = set.counter("host_launch_thread_cpu_seconds_total",
                                   "Time that these threads ran on a CPU, by its NUMA node.",
                                   {{"numa_node", true}}, 1e9),
        .latency = set.histogram("host_runqueue_latency_seconds",
                                 "How long these threads waited for a CPU, each time that they "
                                 "were given one, without the time that their cgroup's CPU quota "
                                 "was used up.",
                                 {{"role", true}}, HOST_LATENCY_BOUNDS, 1e9),
        .gaps = LaunchGaps(set),
    };
}

HostTimeAggregator::HostTimeAggregator(const SeriesSettings &settings)
    : families_(settings.budget, settings.pid_label), processes_(families_, settings, host_grace) {}

void HostTimeAggregator::on_reading(const HostTimeReading &reading) {
    const auto sums = sums_of(reading);
    for (const auto &[key, sum] : sums) {
        count(processes_.of(key), sum);
    }
    show_threads(sums);
}

void HostTimeAggregator::count(Process &process, const HostTimeSum &sum) {
    count_cells(process, sum.times);
    count_nodes(process, sum);
    count_latencies(process, sum.times);
    of_.gaps.count(process, process.gaps, sum.times);
    opened_ += grown(sum.times.opened, process.opened);
    settled_ += grown(sum.times.settled, process.settled);
    gap_records_ += grown(sum.times.gap_records, process.gap_records);
    gap_records_lost_ += grown(sum.times.gap_records_lost, process.gap_records_lost);
}

void HostTimeAggregator::add(Process &process, std::size_t phase, std::size_t state,
                             std::uint64_t nanoseconds) {
    if (nanoseconds == 0) {
        return;
    }
    auto &slot = process.slots[phase][state];
    if (!slot) {
        auto values = process.labels;
        values.emplace_back(host_phase_name(static_cast<std::uint32_t>(phase)));
        values.emplace_back(host_state_name(static_cast<std::uint32_t>(state)));
        slot = of_.seconds.slot(process.owner, values);
    }
    of_.seconds.add(*slot, nanoseconds);
}

void HostTimeAggregator::count_cells(Process &process, const host_times &times) {
    const HostCells before = process.cells;
    process.cells.grow_to(times);
    const HostCells added = process.cells.since(before);
    for (std::size_t phase = 0; phase < HOST_PHASE_COUNT; phase++) {
        for (std::size_t state = 0; state < HOST_STATE_COUNT; state++) {
            add(process, phase, state, added.ns[phase][state]);
        }
    }
}

void HostTimeAggregator::count_nodes(Process &process, const HostTimeSum &sum) {
    for (std::size_t node = 0; node < HOST_NODES; node++) {
        const std::uint64_t added =
            grown(sum.times.node_ns[node] + sum.open_ns[node], process.nodes[node]);
        if (added > 0) {
            auto values = process.labels;
            values.push_back(node_name(node));
            of_.cpu_seconds.add(of_.cpu_seconds.slot(process.owner, values), added);
        }
    }
}

void HostTimeAggregator::count_latencies(Process &process, const host_times &times) {
    std::array<std::uint64_t, HOST_LATENCY_BUCKETS + 1> added{};
    for (std::size_t i = 0; i < HOST_LATENCY_BUCKETS; i++) {
        added[i] = grown(times.latencies[i], process.latencies[i]);
    }
    added[HOST_LATENCY_BUCKETS] = grown(times.latency_ns, process.latencies[HOST_LATENCY_BUCKETS]);
    auto values = process.labels;
    values.emplace_back("gpu");
    of_.latency.observe_all(of_.latency.slot(process.owner, values), added);
}

// Processes with the same labels share a series, which ends with the last of their threads.
void HostTimeAggregator::show_threads(const std::map<ProcessKey, HostTimeSum> &sums) {
    std::map<series::LabelValues, std::uint64_t> threads;
    std::map<series::LabelValues, series::Owner> owners;
    for (const auto &[key, sum] : sums) {
        if (sum.threads > 0) {
            const Process &process = processes_.of(key);
            threads[process.labels] += sum.threads;
            owners[process.labels] = process.owner;
        }
    }
    of_.threads.remove_if([&](const series::LabelValues &one) { return !threads.contains(one); });
    for (const auto &[labels, count] : threads) {
        of_.threads.set(of_.threads.slot(owners[labels], labels), count);
    }
}

}  // namespace gpusnoop::probes
