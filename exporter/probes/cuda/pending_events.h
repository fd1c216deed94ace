// What happened to memory and waits until everything before it is known.
#pragma once

#include <chrono>
#include <variant>
#include <vector>

#include "bpf/cuda/cuda.h"

namespace gpusnoop::probes {

// What depends on the order of events: allocations and frees, the ends of processes, and copies
// whose direction depends on the allocations at that moment.
using MemoryEvent = std::variant<cuda_allocation_record, cuda_mapping_record, cuda_reset_record,
                                 cuda_copy_record, cuda_exit_record>;

// Events come in any order and leave in that of the times at which their calls ended.
class PendingEvents {
public:
    template <typename Record>
    void add(const Record &record) {
        events_.emplace_back(record);
    }
    // Those that had ended by then, in their order; events of the same time as they came.
    [[nodiscard]] std::vector<MemoryEvent> take_until(std::chrono::nanoseconds until);
    // A burst leaves room for megabytes of events. For once a second.
    void release_room();

private:
    std::vector<MemoryEvent> events_;
};

}  // namespace gpusnoop::probes
