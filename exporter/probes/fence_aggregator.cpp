#include "exporter/probes/fence_aggregator.h"

#include <string_view>
#include <utility>

#include "exporter/base/text.h"
#include "exporter/kernel/record.h"
#include "exporter/probes/fence_names.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

namespace {

constexpr std::size_t max_label_bytes = 64;

// The files of a process are closed behind its end, and its fences go with them.
constexpr nanoseconds grace = std::chrono::seconds(10);

template <std::size_t N>
std::string label_text(const char (&bytes)[N]) {
    const std::string text = to_valid_utf8({bytes, N}, max_label_bytes);
    return text.empty() ? "unknown" : text;
}

}  // namespace

FenceAggregator::FenceAggregator(FenceSettings settings,
                                 std::function<bool(ProcessIdentity &)> look_up)
    : settings_(std::move(settings)),
      family_set_(settings_.budget, settings_.pid_label),
      families_(make_fence_families(family_set_)),
      processes_(settings_.pid_label, std::move(look_up)) {}

void FenceAggregator::on_record(std::span<const std::byte> bytes) {
    if (processes_.on_record(bytes)) {
        return;
    }
    const auto record = kernel::decode<fence_record>(bytes);
    const std::uint32_t event = record ? record->head.type - FENCE_RECORD : ~0U;
    if (event >= FENCE_EVENT_COUNT) {
        undecodable_++;
        return;
    }
    // A fence that nobody is known to have made.
    series::LabelValues values = {"unknown", ""};
    series::Owner owner = 0;
    if (record->head.since_ns != 0) {
        const TracedProcess &process = processes_.of({record->head.tgid, record->head.since_ns});
        values = process.labels;
        owner = process.owner;
    } else if (settings_.pid_label) {
        values.emplace_back("unknown");
    }
    values.push_back(label_text(record->names.driver));
    if (record->has_duration != 0) {
        series::Family &durations = event == FENCE_wait_end ? families_.waits : families_.latencies;
        durations.observe(durations.slot(owner, values), record->nanoseconds);
    }
    values.push_back(label_text(record->names.timeline));
    values.emplace_back(fence_event_names.at(event));
    families_.events.add(families_.events.slot(owner, values), 1);
}

void FenceAggregator::tidy(nanoseconds now) {
    (void)processes_.take_ended(now - grace);
    family_set_.rebalance();
    for (const series::Owner owner : processes_.expire(now, settings_.retention)) {
        family_set_.remove(owner);
    }
}

}  // namespace gpusnoop::probes
