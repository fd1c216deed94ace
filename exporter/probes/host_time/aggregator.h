// The accounts of launching threads -> counters. No BPF here: readings in, families out.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bpf/host_time/host_time.h"
#include "exporter/probes/frame/processes/cuda_shared.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/host_time/gaps/gaps.h"
#include "exporter/probes/host_time/process_times.h"
#include "exporter/probes/host_time/waits.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct HostTimeFamilies {
    series::Family &seconds, &threads, &cpu_seconds;
    LaunchGaps gaps;
    HostWaits waits;
};

HostTimeFamilies make_host_time_families(series::FamilySet &set);

// All accounts at one moment. The past is read first: a thread that ends meanwhile is missing then,
// and is not there twice.
struct HostTimeReading {
    std::vector<std::pair<host_process, host_times>> past;  // of ended threads, by process
    // Of ended threads, and of those that have gone to another device.
    std::vector<std::pair<host_device_key, host_device_times>> devices;
    std::vector<host_thread_record> threads;
    // Of the other threads, and of ended ones.
    std::vector<host_waits_record> waits, ended_waits;
    std::vector<std::pair<host_file_key, host_file_waits>> file_waits;
    std::vector<std::uint32_t> nodes;  // NUMA nodes, by CPU
};

// The threads' numbers added up.
struct HostTimeSum {
    host_times times{};
    // By device; with what they run on a CPU that they have not left yet.
    std::map<std::int32_t, host_device_times> devices;
    std::uint32_t threads = 0;
    // Of the oldest call that one of them is inside of.
    std::uint64_t call_ns = 0;  // 0: none
    std::uint16_t function = 0;
};

// CudaShared::gpu_name.
using GpuName = std::function<std::optional<std::string>(std::uint32_t tgid, std::int32_t device)>;
// CudaShared::unseen_launches.
using UnseenLaunchesOf = std::function<double(std::uint32_t tgid)>;

class HostTimeAggregator {
public:
    explicit HostTimeAggregator(const SeriesSettings &settings);

    // Before the first reading. Without it, no GPU has a name.
    void name_gpus(GpuName gpu_name) { gpu_name_ = std::move(gpu_name); }
    // The same. Without it, all launches are taken for observed.
    void estimate_launches(UnseenLaunchesOf unseen_launches) {
        unseen_launches_ = std::move(unseen_launches);
    }
    // The same. Without it, no process has a current call.
    void name_functions(CudaFunctionName function_name) { function_name_ = function_name; }

    // Counts what is new since the last reading. What it has counted never falls.
    void on_reading(const HostTimeReading &reading);

    // What it has counted of each process that has had a launching thread, as far as it is known.
    void for_each(
        const std::function<void(const ProcessIdentity &, const ProcessTimes &)> &use) const {
        processes_.for_each([&](const Process &process) {
            if (process.cells.wall_ns() > 0) {
                use(process, {.cells = process.cells,
                              .gaps = process.gaps(),
                              .workers = workers_of(process.key.tgid),
                              .call = process.call});
            }
        });
    }

    // The gaps after waits of each process that has ended, is still known and has had a launching
    // thread: the time in which the host kept the GPU waiting.
    void for_each_ended(
        const std::function<void(const ProcessKey &, std::chrono::nanoseconds)> &use) const {
        processes_.for_each([&](const Process &process) {
            if (process.ended && process.cells.wall_ns() > 0) {
                const std::uint64_t ns = process.gaps().after_waits().ns;
                use(process.key, std::chrono::nanoseconds(static_cast<std::int64_t>(ns)));
            }
        });
    }

    [[nodiscard]] const series::FamilySet &families() const { return families_; }
    [[nodiscard]] ProcessTableBase &processes() { return processes_; }

    // Times off the CPU: all that began, and those of them that are over.
    [[nodiscard]] std::uint64_t opened() const { return opened_; }
    [[nodiscard]] std::uint64_t settled() const { return settled_; }
    // Waits for files that the kernel's table had no room for.
    [[nodiscard]] std::uint64_t file_waits_lost() const { return file_waits_lost_; }
    // Records of gaps, and those of them that were lost.
    [[nodiscard]] std::uint64_t gap_records() const { return gap_records_; }
    [[nodiscard]] std::uint64_t gap_records_lost() const { return gap_records_lost_; }

    [[nodiscard]] const ProcessIdentity &identity_of(const host_process &process) {
        return processes_.of({process.tgid, process.since_ns});
    }

private:
    using Slots =
        std::array<std::array<std::optional<series::Slot>, HOST_STATE_COUNT>, HOST_PHASE_COUNT>;
    struct Device {
        LaunchGaps::Counted gaps;
        std::array<std::uint64_t, HOST_NODES> nodes{};
    };
    struct Process : KnownProcess {
        HostCells cells;
        Slots slots;
        std::map<std::int32_t, Device> devices;
        HostWaits::Counted waits;
        std::optional<CurrentCall> call;
        std::uint32_t root = 0;  // of a worker
        std::uint64_t gap_records = 0;
        std::uint64_t gap_records_lost = 0;

        // Of all devices.
        [[nodiscard]] GapTimes gaps() const;
    };

    void count(Process &process, const HostTimeSum &sum);
    void count_cells(Process &process, host_times times);
    void count_devices(Process &process, const HostTimeSum &sum);
    void count_nodes(const Process &process, Device &device, const host_device_times &times);
    void count_waits(const HostTimeReading &reading, const std::map<ProcessKey, HostTimeSum> &sums);
    void count_waits(Process &process, const WaitSum &sum);
    void count_file_waits(const HostTimeReading &reading);
    void count_workers(const HostTimeReading &reading);
    [[nodiscard]] WorkerTimes workers_of(std::uint32_t root) const {
        const auto found = workers_.find(root);
        return found == workers_.end() ? WorkerTimes() : found->second;
    }
    void add(Process &process, std::size_t phase, std::size_t state, std::uint64_t nanoseconds);
    void show_threads(const std::map<ProcessKey, HostTimeSum> &sums);

    GpuName gpu_name_;
    UnseenLaunchesOf unseen_launches_;
    CudaFunctionName function_name_ = nullptr;
    series::FamilySet families_;
    HostTimeFamilies of_ = make_host_time_families(families_);
    ProcessTable<Process> processes_;
    std::map<std::uint32_t, WorkerTimes> workers_;  // by the process that started them
    std::uint64_t opened_ = 0;
    std::uint64_t settled_ = 0;
    std::uint64_t file_waits_lost_ = 0;
    std::uint64_t gap_records_ = 0;
    std::uint64_t gap_records_lost_ = 0;
};

}  // namespace gpusnoop::probes
