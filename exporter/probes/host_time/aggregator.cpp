#include "exporter/probes/host_time/aggregator.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>

#include "exporter/probes/frame/host_probe.h"
#include "exporter/probes/frame/processes/process_counts.h"
#include "exporter/probes/host_time/calls.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t last_node = HOST_NODES - 1;

// Both are numbers of 64 bits, and nothing else.
template <typename Times>
void add_up(Times &sum, const Times &times) {
    constexpr std::size_t words = sizeof(Times) / sizeof(__u64);
    const std::span to(reinterpret_cast<__u64 *>(&sum), words);
    const std::span from(reinterpret_cast<const __u64 *>(&times), words);
    std::ranges::transform(to, from, to.begin(), std::plus<>());
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
    std::uint64_t known = times.ran_ns;
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
    for (const auto &[key, times] : reading.devices) {
        add_up(sums[{key.tgid, key.since_ns}].devices[key.device], times);
    }
    for (const host_thread_record &thread : reading.threads) {
        HostTimeSum &sum = sums[{thread.process.tgid, thread.process.since_ns}];
        host_device_times &of_device = sum.devices[thread.device];
        const std::size_t node =
            thread.cpu < reading.nodes.size() ? reading.nodes[thread.cpu] : last_node;
        add_up(sum.times, thread.times);
        add_up(of_device, thread.of_device);
        of_device.node_ns[std::min(node, last_node)] += open_run(thread.times);
        sum.threads++;
        if (thread.call_ns > sum.call_ns) {
            sum.call_ns = thread.call_ns;
            sum.function = static_cast<std::uint16_t>(thread.function);
        }
    }
    return sums;
}

}  // namespace

HostTimeFamilies make_host_time_families(series::FamilySet &set) {
    return {
        .seconds = set.counter("host_launch_thread_seconds_total",
                               "Wall time of threads that have submitted work to a GPU, by the "
                               "kind of CUDA call that they are in (phase) and by what they do "
                               "or wait for (state).",
                               {{"phase", true}, {"state", true}}, 1e9),
        .threads = set.gauge("host_launch_threads",
                             "Running threads that have submitted work to a GPU.", {}),
        .cpu_seconds = set.counter("host_launch_thread_cpu_seconds_total",
                                   "CPU time of threads that have submitted work to a GPU, by "
                                   "NUMA node of the CPU and by the GPU that they last launched "
                                   "on.",
                                   {{"gpu", true}, {"numa_node", true}}, 1e9),
        .gaps = LaunchGaps(set),
        .waits = HostWaits(set),
    };
}

HostTimeAggregator::HostTimeAggregator(const SeriesSettings &settings)
    : families_(settings.budget, settings.pid_label), processes_(families_, settings, host_grace) {}

void HostTimeAggregator::on_reading(const HostTimeReading &reading) {
    const auto sums = sums_of(reading);
    for (const auto &[key, sum] : sums) {
        count(processes_.of(key), sum);
    }
    count_waits(reading, sums);
    show_threads(sums);
}

void HostTimeAggregator::count(Process &process, const HostTimeSum &sum) {
    count_cells(process, sum.times);
    count_devices(process, sum);
    process.call.reset();
    if (function_name_ != nullptr && sum.call_ns > 0) {
        process.call = {.function = std::string(function_name_(sum.function)),
                        .age_ns = sum.call_ns};
    }
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

// Launches that were not observed, because that costs the process too much, took as long as the
// others.
void HostTimeAggregator::count_cells(Process &process, host_times times) {
    const HostCells before = process.cells;
    if (unseen_launches_) {
        __u64 &launch_ns = times.call_ns[HOST_launch];
        launch_ns += static_cast<std::uint64_t>(unseen_launches_(process.key.tgid) *
                                                static_cast<double>(launch_ns));
    }
    process.cells.grow_to(times);
    const HostCells added = process.cells.since(before);
    for (std::size_t phase = 0; phase < HOST_PHASE_COUNT; phase++) {
        for (std::size_t state = 0; state < HOST_STATE_COUNT; state++) {
            add(process, phase, state, added.ns[phase][state]);
        }
    }
}

void HostTimeAggregator::count_devices(Process &process, const HostTimeSum &sum) {
    for (const auto &[number, times] : sum.devices) {
        auto device = process.devices.find(number);
        if (device == process.devices.end()) {
            const auto gpu = gpu_name_ ? gpu_name_(process.key.tgid, number) : std::nullopt;
            if (!gpu && gpu_name_ && sum.threads > 0) {
                continue;  // `cuda` has not heard of the process yet: the next reading has it all
            }
            device = process.devices
                         .emplace(number, Device{LaunchGaps::Counted(gpu.value_or("unknown")), {}})
                         .first;
        }
        of_.gaps.count(process, device->second.gaps, times);
        count_nodes(process, device->second, times);
    }
}

void HostTimeAggregator::count_nodes(const Process &process, Device &device,
                                     const host_device_times &times) {
    for (std::size_t node = 0; node < HOST_NODES; node++) {
        const std::uint64_t added = grown(times.node_ns[node], device.nodes[node]);
        if (added > 0) {
            auto values = process.labels;
            values.push_back(device.gaps.gpu());
            values.push_back(node_name(node));
            of_.cpu_seconds.add(of_.cpu_seconds.slot(process.owner, values), added);
        }
    }
}

GapTimes HostTimeAggregator::Process::gaps() const {
    GapTimes all;
    for (const auto &[number, device] : devices) {
        all.add(device.gaps.times());
    }
    return all;
}

void HostTimeAggregator::count_waits(const HostTimeReading &reading,
                                     const std::map<ProcessKey, HostTimeSum> &sums) {
    std::map<ProcessKey, WaitSum> waits;
    for (const auto &[key, sum] : sums) {
        waits[key].add(sum.times);
    }
    for (const auto *const records : {&reading.ended_waits, &reading.waits}) {
        for (const host_waits_record &record : *records) {
            waits[{record.waiter.tgid, record.waiter.since_ns}].add(record);
        }
    }
    for (const auto &[key, sum] : waits) {
        count_waits(processes_.of(key), sum);
    }
    count_file_waits(reading);
    count_workers(reading);
}

void HostTimeAggregator::count_waits(Process &process, const WaitSum &sum) {
    const HostWaits::Sums before = process.waits.sums();
    of_.waits.count(process, process.waits, sum);
    const HostWaits::Sums &now = process.waits.sums();
    opened_ += now.opened - before.opened;
    settled_ += now.settled - before.settled;
    file_waits_lost_ += now.file_waits_lost - before.file_waits_lost;
    process.root = sum.root;
    if (process.waits.is_worker() && process.root != 0) {
        WorkerTimes &workers = workers_[process.root];
        for (std::size_t state = 0; state < HOST_STATE_COUNT; state++) {
            workers.state_ns[state] += now.ns[state] - before.ns[state];
        }
    }
}

// A wait for a file is a time off the CPU, too, so the processes are known by then.
void HostTimeAggregator::count_file_waits(const HostTimeReading &reading) {
    for (const auto &[key, file_waits] : reading.file_waits) {
        Process &process = processes_.of({key.tgid, key.since_ns});
        const auto added =
            of_.waits.count_files(process, process.waits, key.filesystem, file_waits);
        if (process.waits.is_worker() && process.root != 0 && added.waits > 0) {
            auto &files =
                workers_[process.root].files[std::string(filesystem_name(key.filesystem))];
            files.waits += added.waits;
            files.ns += added.ns;
        }
    }
}

void HostTimeAggregator::count_workers(const HostTimeReading &reading) {
    std::map<std::uint32_t, std::set<ProcessKey>> running;
    for (const auto &[waiter, waits] : reading.waits) {
        if (waiter.role == FOLLOWED_WORKER) {
            running[waiter.root].insert({waiter.tgid, waiter.since_ns});
        }
    }
    std::set<std::uint32_t> known;
    processes_.for_each([&](const Process &process) { known.insert(process.key.tgid); });
    std::erase_if(workers_, [&](const auto &entry) { return !known.contains(entry.first); });
    for (auto &[root, workers] : workers_) {
        workers.processes = running[root].size();
    }
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
