// What a process's launching threads, and its workers, have spent their time on.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "exporter/probes/host_time/cells.h"
#include "exporter/probes/host_time/gaps/gap_times.h"
#include "exporter/probes/host_time/worker_times.h"

namespace gpusnoop::probes {

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
