// The accounts of launching threads -> counters. No BPF here: readings in, families out.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "bpf/host_time/host_time.h"
#include "exporter/probes/frame/process_table.h"
#include "exporter/probes/host_time/cells.h"
#include "exporter/probes/host_time/gaps.h"
#include "exporter/probes/host_time/process_times.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct HostTimeFamilies {
    series::Family &seconds, &threads, &cpu_seconds, &latency;
    LaunchGaps gaps;
};

HostTimeFamilies make_host_time_families(series::FamilySet &set);

// All accounts at one moment. The past is read first: a thread that ends meanwhile is missing then,
// and is not there twice.
struct HostTimeReading {
    std::vector<std::pair<host_process, host_times>> past;  // of ended threads, by process
    std::vector<host_thread_record> threads;
    std::vector<std::uint32_t> nodes;  // NUMA nodes, by CPU
};

// The threads' numbers added up.
struct HostTimeSum {
    host_times times{};
    std::uint32_t threads = 0;
    // Running on a CPU that they have not left yet, by NUMA node.
    std::array<std::uint64_t, HOST_NODES> open_ns{};
};

class HostTimeAggregator {
public:
    explicit HostTimeAggregator(const SeriesSettings &settings);

    // Counts what is new since the last reading. What it has counted never falls.
    void on_reading(const HostTimeReading &reading);

    // What it has counted of each process that it knows.
    void for_each(
        const std::function<void(const ProcessIdentity &, const ProcessTimes &)> &use) const {
        processes_.for_each([&](const Process &process) {
            use(process, {.cells = process.cells, .gaps = process.gaps.times()});
        });
    }

    [[nodiscard]] const series::FamilySet &families() const { return families_; }
    [[nodiscard]] ProcessTableBase &processes() { return processes_; }

    // Times off the CPU: all that began, and those of them that are over.
    [[nodiscard]] std::uint64_t opened() const { return opened_; }
    [[nodiscard]] std::uint64_t settled() const { return settled_; }
    // Records of gaps, and those of them that were lost.
    [[nodiscard]] std::uint64_t gap_records() const { return gap_records_; }
    [[nodiscard]] std::uint64_t gap_records_lost() const { return gap_records_lost_; }

    [[nodiscard]] const ProcessIdentity &identity_of(const host_process &process) {
        return processes_.of({process.tgid, process.since_ns});
    }

private:
    using Slots =
        std::array<std::array<std::optional<series::Slot>, HOST_STATE_COUNT>, HOST_PHASE_COUNT>;
    struct Process : KnownProcess {
        HostCells cells;
        Slots slots;
        std::array<std::uint64_t, HOST_NODES> nodes{};
        std::array<std::uint64_t, HOST_LATENCY_BUCKETS + 1> latencies{};
        LaunchGaps::Counted gaps;
        std::uint64_t opened = 0;
        std::uint64_t settled = 0;
        std::uint64_t gap_records = 0;
        std::uint64_t gap_records_lost = 0;
    };

    void count(Process &process, const HostTimeSum &sum);
    void count_cells(Process &process, const host_times &times);
    void count_nodes(Process &process, const HostTimeSum &sum);
    void count_latencies(Process &process, const host_times &times);
    void add(Process &process, std::size_t phase, std::size_t state, std::uint64_t nanoseconds);
    void show_threads(const std::map<ProcessKey, HostTimeSum> &sums);

    series::FamilySet families_;
    HostTimeFamilies of_ = make_host_time_families(families_);
    ProcessTable<Process> processes_;
    std::uint64_t opened_ = 0;
    std::uint64_t settled_ = 0;
    std::uint64_t gap_records_ = 0;
    std::uint64_t gap_records_lost_ = 0;
};

}  // namespace gpusnoop::probes
