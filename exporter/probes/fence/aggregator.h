// The fence probe's records -> counters and histograms. No BPF here: records in, families out.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "bpf/fence/fence.h"
#include "exporter/probes/frame/processes/process_table.h"

namespace gpusnoop::probes {

struct FenceFamilies {
    series::Family &events, &waits, &latencies;
};

FenceFamilies make_fence_families(series::FamilySet &set);

// An event and its process: "unknown" for a fence of an unknown process.
using OnFence = std::function<void(const fence_record &, const ProcessIdentity &)>;

class FenceAggregator : public CountingAggregator<make_fence_families> {
public:
    explicit FenceAggregator(const SeriesSettings &settings);

    // Counts the event, or passes it to `trace`. False: not such a record, or a wrong size.
    bool on_record(std::span<const std::byte> bytes, const OnFence &trace = nullptr);

private:
    void count(const fence_record &record, std::uint32_t event, const KnownProcess *process);
};

// The names of DMA fence events, as in the label `event` and in traces.
// By enum fence_event.
inline constexpr std::array<std::string_view, FENCE_EVENT_COUNT> fence_event_names = {
#define EVENT(name) #name,
    FENCE_EVENTS(EVENT)
#undef EVENT
};

}  // namespace gpusnoop::probes
