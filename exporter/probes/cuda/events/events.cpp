#include "exporter/probes/cuda/events/events.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gpusnoop::probes {

namespace {

constexpr double nanoseconds_per_millisecond = 1e6;

}  // namespace

std::optional<std::uint64_t> elapsed_ns(std::uint32_t milliseconds, std::uint64_t now_ns) {
    const double elapsed = double{std::bit_cast<float>(milliseconds)} * nanoseconds_per_millisecond;
    if (!(elapsed >= 0 && elapsed <= static_cast<double>(now_ns))) {
        return std::nullopt;  // of NaN, each comparison is false
    }
    return static_cast<std::uint64_t>(std::llround(elapsed));
}

struct CudaEvents::State final : PartState {
    static constexpr Part part = Part::events;

    std::optional<series::Slot> elapsed, invalid;
};

void CudaEvents::started(Process &process) {
    add_state<State>(process);
}

void CudaEvents::on_elapsed(Process &process, const cuda_elapsed_record &record) {
    State &state = state_of<State>(process);
    if (const auto elapsed = elapsed_ns(record.milliseconds, record.head.ended_ns)) {
        if (!state.elapsed) {
            state.elapsed = families_.elapsed.slot(process.owner, labels_of(process, {}));
        }
        families_.elapsed.observe(*state.elapsed, *elapsed);
        return;
    }
    if (!state.invalid) {
        state.invalid = families_.invalid.slot(process.owner, labels_of(process, {}));
    }
    families_.invalid.add(*state.invalid, 1);
}

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
