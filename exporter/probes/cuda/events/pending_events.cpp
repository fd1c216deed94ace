#include "exporter/probes/cuda/events/pending_events.h"

#include <algorithm>

#include "exporter/probes/cuda/record_time.h"

namespace gpusnoop::probes {

std::vector<OrderedEvent> PendingEvents::take_until(std::chrono::nanoseconds until) {
    const auto time_of = [](const OrderedEvent &event) {
        return std::visit([](const auto &record) { return ended_at(record.head); }, event);
    };
    if (!std::ranges::is_sorted(events_, {}, time_of)) {  // they nearly always are
        std::ranges::stable_sort(events_, {}, time_of);
    }
    const auto end = std::ranges::upper_bound(events_, until, {}, time_of);
    std::vector<OrderedEvent> due(events_.begin(), end);
    events_.erase(events_.begin(), end);
    return due;
}

void PendingEvents::release_room() {
    if (events_.capacity() > 1'024 && events_.size() < events_.capacity() / 8) {
        events_.shrink_to_fit();
    }
}

}  // namespace gpusnoop::probes
