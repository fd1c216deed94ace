#include "exporter/probes/cuda/events.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

namespace gpusnoop::probes {

namespace {

constexpr double nanoseconds_per_millisecond = 1e6;

// The value is the program's: nothing of it is sure. No event is older than the machine's start.
std::optional<std::uint64_t> nanoseconds_of(const cuda_elapsed_record &record) {
    const double elapsed_ns =
        double{std::bit_cast<float>(record.milliseconds)} * nanoseconds_per_millisecond;
    if (!(elapsed_ns >= 0 && elapsed_ns <= static_cast<double>(record.head.ended_ns))) {
        return std::nullopt;  // of NaN, each comparison is false
    }
    return static_cast<std::uint64_t>(std::llround(elapsed_ns));
}

}  // namespace

struct CudaEvents::State final : PartState {
    static constexpr Part part = Part::events;

    std::optional<series::Slot> elapsed, invalid;
};

void CudaEvents::started(Process &process) {
    add_state<State>(process);
}

void CudaEvents::on_elapsed(Process &process, const cuda_elapsed_record &record) {
    State &state = state_of<State>(process);
    if (const auto elapsed_ns = nanoseconds_of(record)) {
        if (!state.elapsed) {
            state.elapsed = families_.elapsed.slot(process.owner, labels_of(process, {}));
        }
        families_.elapsed.observe(*state.elapsed, *elapsed_ns);
        return;
    }
    if (!state.invalid) {
        state.invalid = families_.invalid.slot(process.owner, labels_of(process, {}));
    }
    families_.invalid.add(*state.invalid, 1);
}

}  // namespace gpusnoop::probes
