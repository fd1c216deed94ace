// Follows the user stack of a thread that is inside of a traced call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/symbols/stacks/process_memory.h"

namespace gpusnoop::probes {

struct StackPlace {
    std::uint64_t address = 0;       // where the thread is, or where a call returns to
    const OpenCall *left = nullptr;  // the traced call that returns there
};

// The innermost first, 128 at most: where the thread is; what its frame pointers lead to; and where
// the traced calls return to, even if a function without a frame pointer hides it. `calls` are the
// thread's. Reads the thread's stack by `read`: 64 KiB at once, and what lies further by itself.
[[nodiscard]] std::vector<StackPlace> walk_stack(const blocked_thread_record &thread,
                                                 std::span<const OpenCall *const> calls,
                                                 const symbols::ReadMemory &read);

}  // namespace gpusnoop::probes
