// What a process's launching threads, and its workers, have spent their time on.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "bpf/host_time/host_time.h"

namespace gpusnoop::probes {

// The launch gaps of a process by what they began with, and what they were spent on.
// Numbers that never fall.
struct GapTimes {
    struct Sum {
        std::uint64_t gaps = 0;
        std::uint64_t ns = 0;
        std::array<std::uint64_t, HOST_GAP_STATES> state_ns{};  // of those that are explained

        [[nodiscard]] std::uint64_t explained_ns() const;
    };
    std::array<Sum, HOST_DRAIN_COUNT> by_drain{};

    // Adds those of another device.
    void add(const GapTimes &more);
    // What these have more than `before`.
    [[nodiscard]] GapTimes since(const GapTimes &before) const;
    [[nodiscard]] std::uint64_t gaps() const;
    // The gaps after waits: then the GPU, or one of its streams, had nothing to do.
    [[nodiscard]] Sum after_waits() const;
};

// {"device":{"gaps":19,"seconds":2.6,"states":{"pipe":1.8}}}: in seconds, without what is 0.
[[nodiscard]] nlohmann::ordered_json to_json(const GapTimes &gaps);

// What the workers of a process, such as its data loaders, spend their time on.
// Of all their threads, also of ended ones. All numbers only grow, but for `processes`.
struct WorkerTimes {
    struct FileWaits {
        std::uint64_t waits = 0;
        std::uint64_t ns = 0;
    };
    std::uint64_t processes = 0;  // that run
    std::array<std::uint64_t, HOST_STATE_COUNT> state_ns{};
    std::map<std::string, FileWaits, std::less<>> files;  // by file system

    // What these have more than `before`.
    [[nodiscard]] WorkerTimes since(const WorkerTimes &before) const;
};

// {"processes":8,"seconds":{"file":61.5},"file_waits":{"nfs":{"waits":512,"seconds":61.5}}},
// without what is 0.
[[nodiscard]] nlohmann::ordered_json to_json(const WorkerTimes &workers);

// The wall time of launching threads by phase and state, in nanoseconds.
// Numbers that never fall.
struct HostCells {
    std::array<std::array<std::uint64_t, HOST_STATE_COUNT>, HOST_PHASE_COUNT> ns{};

    // Adds what the times have grown by since the last call.
    void grow_to(const host_times &times);
    // All cells together are the wall time.
    [[nodiscard]] std::uint64_t wall_ns() const;
    // What these have more than `before`, cell by cell.
    [[nodiscard]] HostCells since(const HostCells &before) const;
};

// {"host":{"running":1.25}}: in seconds, without the cells that are 0.
[[nodiscard]] nlohmann::ordered_json to_json(const HostCells &cells);

// A CUDA call that has not returned.
struct CurrentCall {
    std::string function;  // its symbol
    std::uint64_t age_ns = 0;
};

// Numbers that never fall, but for the call.
struct ProcessTimes {
    HostCells cells;
    GapTimes gaps;
    WorkerTimes workers;
    // The oldest that one of its launching threads is inside of now.
    std::optional<CurrentCall> call{};

    // What these have more than `before`.
    [[nodiscard]] ProcessTimes since(const ProcessTimes &before) const {
        return {.cells = cells.since(before.cells),
                .gaps = gaps.since(before.gaps),
                .workers = workers.since(before.workers),
                .call = call};
    }
};

// {"function":"cudaDeviceSynchronize","age_seconds":38.2}, or null.
[[nodiscard]] nlohmann::ordered_json to_json(const std::optional<CurrentCall> &call);

}  // namespace gpusnoop::probes
