#include "exporter/probes/fence/aggregator.h"

#include <string>

#include "exporter/base/text/text.h"
#include "exporter/ebpf/maps/ring.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_label_bytes = 64;

// The files of a process are closed after its end, and its fences then end, too.
constexpr std::chrono::seconds grace{10};

// In nanoseconds: a frame is 16 ms, and a GPU that hangs takes seconds to be reset.
const std::vector<std::uint64_t> bounds = {
    1'000,      4'000,      16'000,      64'000,        256'000,       1'000'000,      4'000'000,
    16'000'000, 64'000'000, 256'000'000, 1'000'000'000, 4'000'000'000, 16'000'000'000,
};

template <std::size_t N>
std::string label_text(const char (&bytes)[N]) {
    const std::string text = to_valid_utf8({bytes, N}, max_label_bytes);
    return text.empty() ? "unknown" : text;
}

}  // namespace

FenceFamilies make_fence_families(series::FamilySet &set) {
    return {
        .events = set.counter("dma_fence_events_total",
                              "DMA fence events, by the process that created the fence; waits, "
                              "by the process that waits.",
                              {{"driver"}, {"timeline"}, {"event", true}}),
        .waits = set.histogram("dma_fence_wait_duration_seconds",
                               "Duration of each wait for a fence, including interrupted waits "
                               "and timeouts.",
                               {{"driver"}}, bounds, 1e9),
        .latencies = set.histogram("dma_fence_signal_latency_seconds",
                                   "Time from the emission of a fence to its signal.", {{"driver"}},
                                   bounds, 1e9),
    };
}

FenceAggregator::FenceAggregator(const SeriesSettings &settings)
    : CountingAggregator(settings, grace) {}

bool FenceAggregator::on_record(std::span<const std::byte> bytes, const OnFence &trace) {
    if (processes_.on_record(bytes)) {
        return true;
    }
    const auto record = ebpf::decode<fence_record>(bytes);
    const std::uint32_t event = record ? record->head.type - FENCE_RECORD : ~0U;
    if (event >= FENCE_EVENT_COUNT) {
        return false;
    }
    const KnownProcess *process = nullptr;
    if (record->head.since_ns != 0) {
        process = &processes_.of({record->head.tgid, record->head.since_ns});
    }
    if (trace) {
        const ProcessIdentity unknown;
        trace(*record, process != nullptr ? *process : unknown);
    } else {
        count(*record, event, process);
    }
    return true;
}

void FenceAggregator::count(const fence_record &record, std::uint32_t event,
                            const KnownProcess *process) {
    auto [values, owner] = processes_.row_of(process);
    values.push_back(label_text(record.names.driver));
    if (record.has_duration != 0) {
        series::Family &durations = event == FENCE_wait_end ? of_.waits : of_.latencies;
        durations.observe(durations.slot(owner, values), record.nanoseconds);
    }
    values.push_back(label_text(record.names.timeline));
    values.emplace_back(fence_event_names.at(event));
    of_.events.add(of_.events.slot(owner, values), 1);
}

}  // namespace gpusnoop::probes
