// The ways of tracing that are compared.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/call_cost/library.h"
#include "bench/call_cost/tracing.h"
#include "bench/call_cost/workloads.h"

namespace gpusnoop::bench {

// bench/library.c three times, by the layers that tracers find in it.
struct Libraries {
    Library both;
    Library runtime;
    Library driver;
};

struct Way {
    enum class Kind { untraced, empty, ours, other };

    std::string name;
    Kind kind;
    const Library *library;
    std::vector<std::string> functions;  // that it traces
    std::function<TracingResult()> begin;
    // The place in the list of the empty programs that are attached in the same way to the same
    // functions.
    std::optional<std::size_t> floor;

    // Does it trace anything of the workload? The untraced way is for all.
    [[nodiscard]] bool concerns(const Workload &workload) const;
};

// The untraced way first. Leaves out, with a sentence on stderr, what is not installed.
std::vector<Way> all_ways(const Libraries &libraries);

}  // namespace gpusnoop::bench
