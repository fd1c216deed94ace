#include "exporter/probes/host_time/gaps/gaps.h"

#include "exporter/probes/frame/processes/process_counts.h"
#include "exporter/probes/host_time/calls.h"

namespace gpusnoop::probes {

LaunchGaps::LaunchGaps(series::FamilySet &set)
    : seconds_(set.histogram(
          "host_launch_gap_seconds",
          "Time in which a process submitted no work to its GPU, from the end of its last "
          "submission or wait to the start of its next submission.",
          {{"gpu", true}}, HOST_SPAN_BOUNDS, 1e9)),
      by_drain_(set.histogram(
          "host_launch_gap_by_drain_seconds",
          "The same, by what the last call before the gap waited for (`drain`): after a wait for "
          "the device, the GPU had no work of the process during the whole gap.",
          {{"gpu", true}, {"drain", true}}, HOST_SPAN_BOUNDS, 1e9)),
      state_seconds_(set.counter("host_launch_gap_state_seconds_total",
                                 "Time in launch gaps of at least host.launch_gaps.min, by what "
                                 "the thread that launched next did or waited for.",
                                 {{"gpu", true}, {"drain", true}, {"state", true}}, 1e9)) {}

void LaunchGaps::count(const KnownProcess &process, Counted &counted,
                       const host_device_times &times) {
    for (std::uint32_t drain = 0; drain < HOST_DRAIN_COUNT; drain++) {
        count_gaps(process, counted, times, drain);
        count_states(process, counted, times, drain);
    }
}

void LaunchGaps::count_gaps(const KnownProcess &process, Counted &counted,
                            const host_device_times &times, std::uint32_t drain) {
    std::array<std::uint64_t, HOST_SPAN_BUCKETS + 1> added{};
    GapTimes::Sum &sum = counted.times_.by_drain[drain];
    std::uint64_t gaps = 0;
    for (std::size_t i = 0; i < HOST_SPAN_BUCKETS; i++) {
        added[i] = grown(times.gaps[drain][i], counted.gaps_[drain][i]);
        gaps += added[i];
    }
    sum.gaps += gaps;
    added[HOST_SPAN_BUCKETS] = grown(times.gap_ns[drain], sum.ns);
    if (gaps == 0 && added[HOST_SPAN_BUCKETS] == 0) {
        return;
    }
    auto &slot = counted.drain_slots_[drain];
    if (!slot) {
        auto values = process.labels;
        values.push_back(counted.gpu_);
        if (!counted.gap_slot_) {
            counted.gap_slot_ = seconds_.slot(process.owner, values);
        }
        values.emplace_back(host_drain_name(drain));
        slot = by_drain_.slot(process.owner, values);
    }
    seconds_.observe_all(*counted.gap_slot_, added);
    by_drain_.observe_all(*slot, added);
}

void LaunchGaps::count_states(const KnownProcess &process, Counted &counted,
                              const host_device_times &times, std::uint32_t drain) {
    for (std::uint32_t state = 0; state < HOST_GAP_STATES; state++) {
        const std::uint64_t added =
            grown(times.gap_state_ns[drain][state], counted.times_.by_drain[drain].state_ns[state]);
        if (added == 0) {
            continue;
        }
        auto &slot = counted.state_slots_[drain][state];
        if (!slot) {
            auto values = process.labels;
            values.push_back(counted.gpu_);
            values.emplace_back(host_drain_name(drain));
            values.emplace_back(host_gap_state_name(state));
            slot = state_seconds_.slot(process.owner, values);
        }
        state_seconds_.add(*slot, added);
    }
}

}  // namespace gpusnoop::probes
