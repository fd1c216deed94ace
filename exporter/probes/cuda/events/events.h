// The times between events that programs ask the GPU for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

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

// Events that must stay in order: allocations and frees, the ends of processes, copies whose
// direction depends on the allocations at that moment, what graphs hold when they are launched, and
// refusals of memory, which are explained by what is allocated.
using OrderedEvent =
    std::variant<cuda_allocation_record, cuda_mapping_record, cuda_reset_record, cuda_copy_record,
                 cuda_exit_record, cuda_change_record, cuda_graph_record, cuda_failed_record,
                 cuda_repaired_record, cuda_free_memory_record>;

// Events come in any order and leave in the order in which their calls ended.
class PendingEvents {
public:
    template <typename Record>
    void add(const Record &record) {
        events_.emplace_back(record);
    }
    // The events until then, in their order; events of the same time in the order in which they
    // came.
    [[nodiscard]] std::vector<OrderedEvent> take_until(std::chrono::nanoseconds until);
    // Frees the megabytes that a burst of events has left. For once a second.
    void release_room();

private:
    std::vector<OrderedEvent> events_;
};

}  // namespace gpusnoop::probes
