// Each launching thread by itself, and the document /api/v1/threads.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/host_time/host_time.h"
#include "exporter/probes/frame/api/list_page.h"
#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/host_time/process_times.h"

namespace gpusnoop::probes {

class HostTimeAggregator;
struct HostTimeReading;

inline constexpr std::string_view threads_page_name = "threads";

struct LaunchingThread {
    ProcessKey process;
    std::uint32_t tid = 0;
    std::uint64_t since_ns = 0;  // its first submission, CLOCK_MONOTONIC
    std::string name;            // valid UTF-8
    std::uint32_t cpu = 0;       // where it runs, or ran last
    std::optional<std::uint32_t> numa_node;
    // What it is inside of and does now, and for how long it has been off the CPU; 0: it is on one.
    std::uint32_t phase = HOST_host;
    std::uint32_t state = HOST_STATE_running;
    std::uint64_t open_ns = 0;
    HostCells cells;
};

// For the aggregating thread.
class LaunchingThreads {
public:
    // Forgets the threads that have ended.
    void on_reading(const HostTimeReading &reading);

    // The oldest first.
    [[nodiscard]] std::vector<LaunchingThread> list() const;

private:
    struct Key {
        std::uint64_t since_ns;
        std::uint32_t tid;
        auto operator<=>(const Key &) const = default;
    };
    std::map<Key, LaunchingThread> threads_;
};

// What a document is made of.
struct ThreadsState {
    // With the threads that have ended.
    struct Process {
        ProcessIdentity identity;
        ProcessTimes times;
    };
    std::vector<Process> processes;
    std::vector<LaunchingThread> threads;    // the oldest first
    std::chrono::nanoseconds elapsed{};      // since the probe began to count
    std::chrono::nanoseconds to_realtime{};  // from CLOCK_MONOTONIC
};

// As of the last reading.
[[nodiscard]] ThreadsState threads_state(const HostTimeAggregator &aggregator,
                                         const LaunchingThreads &threads);

// "threads": docs/api.md describes the parameters and the members.
[[nodiscard]] ApiPage threads_page(ThreadsState state);

}  // namespace gpusnoop::probes
