// What a process's launching threads, and its workers, have spent their time on.
#pragma once

#include "exporter/probes/host_time/cells.h"
#include "exporter/probes/host_time/gap_times.h"
#include "exporter/probes/host_time/worker_times.h"

namespace gpusnoop::probes {

// Numbers that never fall.
struct ProcessTimes {
    HostCells cells;
    GapTimes gaps;
    WorkerTimes workers;

    // What these have more than `before`.
    [[nodiscard]] ProcessTimes since(const ProcessTimes &before) const {
        return {.cells = cells.since(before.cells),
                .gaps = gaps.since(before.gaps),
                .workers = workers.since(before.workers)};
    }
};

}  // namespace gpusnoop::probes
