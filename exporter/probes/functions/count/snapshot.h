// The functions probe's counts by function and process, besides the families, and never folded. A
// copy for other threads, and for a comparison with a later one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exporter/probes/frame/processes/process_identity.h"
#include "exporter/probes/functions/attach/function_ids.h"
#include "exporter/probes/functions/count/minute_range.h"
#include "exporter/probes/functions/report/rates.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::probes {

struct FunctionCount {
    std::shared_ptr<const FunctionInfo> function;
    FunctionTotals totals;
    MinuteExtremes minute;

    void add(const FunctionCount &other);
};

using processes::ProcessNames;

struct FunctionsSnapshot {
    // A running process that has made calls.
    struct Process {
        std::uint32_t pid = 0;
        ProcessNames names;
        std::vector<FunctionCount> functions;
    };

    std::chrono::nanoseconds taken{};  // on the kernel's monotonic clock
    std::vector<Process> processes;
    std::vector<FunctionCount> ended;  // of processes that have ended, together
};

// The counts that are shown as one function of one library.
struct FunctionRow {
    std::string library;
    std::string function;
    const FunctionsSnapshot::Process *process = nullptr;  // the snapshot's; null: of all
    // Is there anything to count? A function that is followed at its entry only lacks these.
    bool has_durations = false;
    bool has_errors = false;
    bool has_slow_calls = false;
    FunctionTotals totals;
    MinuteExtremes minute;
};

// By library and function. Includes ended processes, so that the numbers never decrease.
[[nodiscard]] std::vector<FunctionRow> rows_by_function(const FunctionsSnapshot &snapshot);
// The same for each running process.
[[nodiscard]] std::vector<FunctionRow> rows_by_process(const FunctionsSnapshot &snapshot);

// What passes between the aggregator and the limit for what named functions cost.
// The calls of one number in a running process since the last time.
struct CallsOfFunction {
    ProcessKey process;
    std::uint32_t number = 0;
    std::uint64_t calls = 0;
};

// How long a function of a file was paused since the last time.
struct UnobservedFunction {
    std::string library;
    std::string name;
    std::chrono::nanoseconds time{};
};

}  // namespace gpusnoop::probes
