// The functions on the stacks of traced calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/frame/process_identity.h"
#include "exporter/symbols/stacks/stack_namer.h"

namespace gpusnoop::trace {

// Looks stacks up at once, and remembers them for a while. For one thread.
class StackNames {
public:
    static Result<std::unique_ptr<StackNames>> start();

    struct Stack {
        probes::ProcessKey process;
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
    struct Process {
        Known stacks;
        std::chrono::steady_clock::time_point since;
    };

    explicit StackNames(std::unique_ptr<symbols::MappedFiles> files) : namer_(std::move(files)) {}
    Known &known_of(const probes::ProcessKey &process);

    symbols::StackNamer namer_;
    std::map<probes::ProcessKey, Process> processes_;
};

}  // namespace gpusnoop::trace
