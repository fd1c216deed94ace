// Names the stacks of threads that are inside of calls.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/frame/calls/open_calls.h"
#include "exporter/probes/frame/python/stacks.h"
#include "exporter/symbols/stacks/mapped_files.h"
#include "exporter/symbols/stacks/patient_reader.h"
#include "exporter/symbols/stacks/stack_namer.h"

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

// Texts are valid UTF-8 and not long.
struct BlockedThread {
    std::string state;  // "running", "sleeping", "uninterruptible", "stopped", "unknown"
    std::vector<symbols::Frame> stack;   // the innermost first
    std::vector<std::string> in_kernel;  // functions, the innermost first; empty: it runs
    std::string site;  // as python_site_label() names where it is; empty: it runs no Python
};

// Reads memory and files of other processes. For any thread; one at a time works.
class InFlightStacks {
public:
    static Result<std::unique_ptr<InFlightStacks>> start();
    InFlightStacks(std::unique_ptr<symbols::MappedFiles> files,
                   std::unique_ptr<symbols::StackResolver> resolver)
        : files_(std::move(files)), resolver_(std::move(resolver)) {}

    // By thread id. Threads that have left their calls meanwhile are missing, and threads over the
    // limit of 256: the ones in the youngest calls.
    [[nodiscard]] std::map<std::uint32_t, BlockedThread> of(const OpenCalls &open);

private:
    // A thread, its calls, and where it is.
    struct Walked {
        const blocked_thread_record *thread;
        std::vector<const OpenCall *> calls;
        std::vector<StackPlace> places;
        std::vector<PythonFrame> python;
    };

    void walk(std::vector<Walked> &walked);
    // As many as addresses; names that do not come in time are unknown.
    std::vector<std::vector<symbols::Frame>> name(std::vector<symbols::StackRequest> requests);

    std::mutex mutex_;
    std::unique_ptr<symbols::MappedFiles> files_;
    std::unique_ptr<symbols::StackResolver> resolver_;
    std::uint64_t next_ticket_ = 1;
};

}  // namespace gpusnoop::probes
