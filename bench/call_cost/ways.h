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
    // What others do, and what of ours is compared with it: the time that each call takes, and
    // which allocations are live.
    enum class Job { none, latency, memory };

    std::string name;
    Kind kind;
    const Library *library;
    std::vector<std::string> functions;  // that it traces
    std::function<TracingResult()> begin;
    // The place in the list of the empty programs that are attached in the same way to the same
    // functions.
    std::optional<std::size_t> floor = {};
    Job job = Job::none;
    bool keeps_books = false;  // of allocations, launches and copies

    // Does it trace anything of the workload? The untraced way is for all.
    [[nodiscard]] bool concerns(const Workload &workload) const;
};

// The untraced way first. Leaves out, with a sentence on stderr, what is not installed.
enum class Which { all, sessions };  // with nobody else's, and nothing that takes long to detach
std::vector<Way> ways_to_trace(const Libraries &libraries, Which which);

}  // namespace gpusnoop::bench
