// What the threads of followed processes wait for -> counters.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "bpf/host_time/host_time.h"
#include "bpf/lib/processes/followed.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/host_time/process_times.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

// The waits of a process's threads, added up.
struct WaitSum {
    host_waits waits{};
    std::uint32_t role = FOLLOWED_WORKER;
    std::uint32_t root = 0;  // the process that started the worker, or what did

    void add(const host_waits_record &record);
    // Of a launching thread, or of several.
    void add(const host_times &times);
};

class HostWaits {
public:
    // As struct host_waits.
    struct Sums {
        std::array<std::uint64_t, HOST_STATE_COUNT> ns{};
        std::uint64_t latency_ns = 0;
        std::array<std::uint64_t, HOST_LATENCY_BUCKETS> latencies{};
        std::uint64_t opened = 0;
        std::uint64_t settled = 0;
        std::uint64_t file_waits_lost = 0;
    };

    explicit HostWaits(series::FamilySet &set);

    // What is counted of one process.
    class Counted {
    public:
        [[nodiscard]] const Sums &sums() const { return sums_; }
        [[nodiscard]] bool is_worker() const { return role_ == FOLLOWED_WORKER; }

    private:
        friend HostWaits;
        using FileWaits = std::array<std::uint64_t, HOST_SPAN_BUCKETS + 1>;

        Sums sums_;
        std::uint32_t role_ = FOLLOWED_WORKER;
        std::map<std::uint32_t, FileWaits> files_;  // by file system
        std::array<std::array<std::optional<series::Slot>, HOST_STATE_COUNT>, FOLLOWED_ROLES>
            slots_;
    };

    // Counts what is new in the sums. It goes to the role that the process has now.
    void count(const KnownProcess &process, Counted &counted, const WaitSum &sum);
    // The same of the files of one file system, after the sums. Returns what is new.
    WorkerTimes::FileWaits count_files(const KnownProcess &process, Counted &counted,
                                       std::uint32_t filesystem, const host_file_waits &waits);

private:
    void count_blocked(const KnownProcess &process, Counted &counted, const host_waits &waits);
    void count_latencies(const KnownProcess &process, Counted &counted, const host_waits &waits);

    series::Family &blocked_;
    series::Family &latency_;
    series::Family &files_;
    series::Family &file_seconds_;
};

}  // namespace gpusnoop::probes
