// The functions on the stacks of traced calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/symbols/stacks/stack_namer.h"
#include "exporter/trace/options.h"

namespace gpusnoop::trace {

// Of traces that can have stacks.
inline constexpr Option stack_option = {.name = "--stack",
                                        .help = "With the functions that led to the call."};

// Looks stacks up at once, and remembers them for a while. For one thread.
class StackNames {
public:
    static Result<std::unique_ptr<StackNames>> start();

    // A process by its id and when it made its first traced call.
    using Process = std::pair<std::uint32_t, std::uint64_t>;
    struct Stack {
        Process process;
        std::uint64_t code_start;              // as symbols::StackRequest has it
        std::vector<std::uint64_t> addresses;  // return addresses, innermost first
    };
    // The frames of each, whose texts are safe for a terminal; of the outermost calls there may be
    // none.
    [[nodiscard]] std::vector<std::vector<symbols::Frame>> name(std::span<const Stack> stacks);

    // After each round.
    void forget_old();

private:
    using Known = std::map<std::vector<std::uint64_t>, std::vector<symbols::Frame>>;
    struct Entry {
        Known stacks;
        std::chrono::steady_clock::time_point since;
    };

    explicit StackNames(std::unique_ptr<symbols::MappedFiles> files) : namer_(std::move(files)) {}
    Known &known_of(const Process &process);

    symbols::StackNamer namer_;
    std::map<Process, Entry> processes_;
};

}  // namespace gpusnoop::trace
