#include "exporter/probes/fence_families.h"

namespace gpusnoop::probes {

namespace {

// In nanoseconds: a frame is 16 ms, and a GPU that hangs takes seconds to be reset.
const std::vector<std::uint64_t> bounds = {
    1'000,      4'000,      16'000,      64'000,        256'000,       1'000'000,      4'000'000,
    16'000'000, 64'000'000, 256'000'000, 1'000'000'000, 4'000'000'000, 16'000'000'000,
};

}  // namespace

FenceFamilies make_fence_families(series::FamilySet &set) {
    return {
        .events = set.counter("dma_fence_events_total",
                              "What happened to DMA fences, of the process that made the fence; "
                              "waits, of the process that waits.",
                              {{"driver"}, {"timeline"}, {"event", true}}),
        .waits = set.histogram("dma_fence_wait_duration_seconds",
                               "Time in each wait for a fence, waits that were interrupted or "
                               "took too long included.",
                               {{"driver"}}, bounds, 1e9),
        .latencies =
            set.histogram("dma_fence_signal_latency_seconds",
                          "Time from a fence's emission to its signal.", {{"driver"}}, bounds, 1e9),
    };
}

}  // namespace gpusnoop::probes
