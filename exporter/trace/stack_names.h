// Looks up the functions on the stacks of traced calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/base/work_limit.h"
#include "exporter/symbols/stacks/stack_namer.h"
#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

// For traces that can have stacks.
inline constexpr Option stack_option = {.name = "--stack", .help = "Include the call stack."};

// Looks stacks up immediately, and remembers them for some seconds. For one thread.
class StackNames {
public:
    static Result<std::unique_ptr<StackNames>> start();

    // A process: its id, and the time of its first traced call.
    using Process = std::pair<std::uint32_t, std::uint64_t>;
    struct Stack {
        Process process;
        std::uint64_t code_start;              // as in symbols::StackRequest
        std::vector<std::uint64_t> addresses;  // as there
        bool begins_at_instruction = false;    // as there
    };
    // Texts are safe for a terminal. The outermost calls may have no frames.
    struct Named {
        std::vector<symbols::Frame> frames;
        std::vector<symbols::CodePlace> places;  // of the frames
    };
    [[nodiscard]] std::vector<Named> name(std::span<const Stack> stacks);
    // Nothing is looked up beyond this limit. At first, there is none.
    void set_limit(const WorkLimit &limit) { limit_ = limit; }

    // Call it after each round.
    void forget_old();

private:
    using Known = std::map<std::pair<std::vector<std::uint64_t>, bool>, Named>;
    struct Entry {
        Known stacks;
        std::chrono::steady_clock::time_point since;
    };

    explicit StackNames(std::unique_ptr<symbols::MappedFiles> files) : namer_(std::move(files)) {}
    Known &known_of(const Process &process);

    symbols::StackNamer namer_;
    WorkLimit limit_;
    std::map<Process, Entry> processes_;
};

}  // namespace gpusnoop::trace
