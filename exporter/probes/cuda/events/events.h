// The times between events that programs ask the GPU for.
#pragma once

#include <cstdint>
#include <optional>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/families.h"
#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

// Nanoseconds, of the bits of the float of milliseconds that the program got. The value is the
// program's, so nothing of it is sure: nothing if it is longer than the machine had been running at
// `now_ns` of its monotonic clock, below 0, or no number.
[[nodiscard]] std::optional<std::uint64_t> elapsed_ns(std::uint32_t milliseconds,
                                                      std::uint64_t now_ns);

class CudaEvents {
public:
    explicit CudaEvents(series::FamilySet &families) : families_(make_event_families(families)) {}

    static void started(Process &process);

    void on_elapsed(Process &process, const cuda_elapsed_record &record);

private:
    struct State;

    EventFamilies families_;
};

}  // namespace gpusnoop::probes
