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
    // `least`: does only what one of ours cannot do without, such as to send a record of each
    // outermost call.
    enum class Kind { untraced, empty, least, ours, other };
    // The purpose of another tool, and of our probe that is compared with it: the time of each
    // call, or the live allocations. Or of ours alone: to count launches where they enter the
    // driver.
    enum class Job { none, latency, memory, count };

    std::string name;
    Kind kind;
    const Library *library;              // a copy of it is traced
    std::vector<std::string> functions;  // traced ones
    std::function<TracingResult(const Library &copy)> begin;
    // The index of the way with empty programs that are attached in the same way to the same
    // functions.
    std::optional<std::size_t> floor = {};
    Job job = Job::none;
    bool keeps_books = false;  // of allocations, launches and copies
    // The index of the way that does the least that this one has to do, attached alike.
    std::optional<std::size_t> least = {};
    // The same, and with as many counters as this one has: what `least` leaves out is needed.
    std::optional<std::size_t> least_of_many = {};

    // Does it trace any function of the workload? The untraced way is for all.
    [[nodiscard]] bool concerns(const Workload &workload) const;
};

// The untraced way first. Omits tools that are not installed, with a message on stderr.
enum class Which { all, sessions };  // without other tools, and without slow detaching
std::vector<Way> ways_to_trace(const Libraries &libraries, Which which);

}  // namespace gpusnoop::bench
