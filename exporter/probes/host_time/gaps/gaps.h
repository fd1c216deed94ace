// The launch gaps of the accounts -> counters: the times in which processes give their GPUs
// nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "bpf/host_time/host_time.h"
#include "exporter/probes/frame/processes/process_table.h"
#include "exporter/probes/host_time/process_times.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

class LaunchGaps {
public:
    explicit LaunchGaps(series::FamilySet &set);

    // What is counted of one process, for one GPU.
    class Counted {
    public:
        explicit Counted(std::string gpu) : gpu_(std::move(gpu)) {}

        [[nodiscard]] const std::string &gpu() const { return gpu_; }
        [[nodiscard]] const GapTimes &times() const { return times_; }

    private:
        friend LaunchGaps;
        std::string gpu_;  // the label
        GapTimes times_;
        std::array<std::array<std::uint64_t, HOST_SPAN_BUCKETS>, HOST_DRAIN_COUNT> gaps_{};
        std::optional<series::Slot> gap_slot_;
        std::array<std::optional<series::Slot>, HOST_DRAIN_COUNT> drain_slots_;
        std::array<std::array<std::optional<series::Slot>, HOST_GAP_STATES>, HOST_DRAIN_COUNT>
            state_slots_;
    };

    // Counts what is new in the sums of a process's threads.
    void count(const KnownProcess &process, Counted &counted, const host_device_times &times);

private:
    void count_gaps(const KnownProcess &process, Counted &counted, const host_device_times &times,
                    std::uint32_t drain);
    void count_states(const KnownProcess &process, Counted &counted, const host_device_times &times,
                      std::uint32_t drain);

    series::Family &seconds_;
    series::Family &by_drain_;
    series::Family &state_seconds_;
};

}  // namespace gpusnoop::probes
