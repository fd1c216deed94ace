// A probe's tables in the kernel of Python interpreters, and of the stacks of Python's functions
// (bpf/lib/python/stacks.bpf.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/probes/frame/python/site_resolver.h"

namespace gpusnoop::probes {

// Borrows the maps' descriptors. For one thread at a time.
class PythonTables {
public:
    struct Maps {
        int interpreters = -1;  // nobody reads Python's stacks
        int stacks = -1;
        std::size_t max_stacks = 0;
    };
    // Whether the probe's own table of processes has it.
    using IsRunning = std::function<bool(const ProcessKey &)>;
    PythonTables(Maps maps, IsRunning is_running)
        : maps_(maps), is_running_(std::move(is_running)) {}

    // From now on, the stacks of Python's functions are read at traced calls of the process, if
    // it runs.
    void set_interpreter(const ProcessKey &process, const PythonInterpreter &python) const;
    // Of such a stack, innermost first; empty if the table does not have it.
    [[nodiscard]] std::vector<PythonStackFrame> stack(const ProcessKey &process,
                                                      std::uint64_t stack) const;
    // Forgets the interpreters of ended processes, and stacks that are neither in use nor new.
    void forget_unused(std::chrono::nanoseconds now, const std::set<std::uint64_t> &in_use) const;

private:
    Maps maps_;
    IsRunning is_running_;
};

}  // namespace gpusnoop::probes
