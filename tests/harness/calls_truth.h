// Compares the page with the own counts of the functions of libcalls.so.1 (tests/fakes/calls).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/probes/functions/setting_groups.h"
#include "tests/harness/exporter.h"
#include "tests/harness/page.h"

namespace harness {

// One of the functions.
struct CallsFunction {
    std::string symbol;
    std::string name;
    gpusnoop::probes::ErrorKind errors = gpusnoop::probes::ErrorKind::none;
    // It has no exit that can be found, so its calls are counted at their entry.
    bool at_entry = false;
};

const std::vector<CallsFunction> &calls_functions();

// The true counts of one function.
struct CallsCount {
    std::uint64_t entered = 0;
    std::uint64_t returned = 0;
    std::uint64_t left = 0;  // left without a return, or still inside
    std::map<std::int64_t, std::uint64_t> errors;
    // The duration that a probe measures lies between the durations that the function and its
    // caller measured.
    std::uint64_t slow = 0;
    std::uint64_t slow_at_most = 0;
    std::uint64_t inner_ns = 0;
    std::uint64_t outer_ns = 0;

    CallsCount &operator+=(const CallsCount &other);
};

using CallsTruth = std::map<std::string, CallsCount>;  // by name

// The lines of the truth in the output of `calls`. Throws std::runtime_error for an incomplete
// line, and for an unknown function.
CallsTruth parse_calls(const std::string &output);
CallsTruth operator+(CallsTruth one, const CallsTruth &other);

// The output without the numbers that depend on the time: the rest is the same for the same seed.
std::string without_times(const std::string &output);

// The functions' calls on the page, and the calls that were left without a return.
double counted_calls(const CallsTruth &truth, bool entry_only = false);
double left_calls(const CallsTruth &truth);

struct CallsConfig {
    std::string mode = "auto";
    bool entry_only = false;
    // For all functions, unless it is empty. The library's own count uses 50ms.
    std::string slow_threshold = "50ms";
    // Whether functions without an exit that can be found are configured to be counted at their
    // entry.
    bool say_at_entry = true;
    std::string endings = "auto";
};

// The start of a configuration. Only the groups after it attach.
std::string only_groups(const std::string &mode);
// The same without the block `cuda:`.
std::string own_groups(const std::string &mode);
// The whole configuration, with a group "calls" that has each of the functions, by its symbol.
std::string calls_config(const CallsConfig &config);

// The label `code` of this error of the function.
std::string calls_error_name(gpusnoop::probes::ErrorKind kind, std::int64_t code);

// Checks each function of the truth for the processes of this comm: calls, errors by code,
// durations and slow calls. A call that did not return is in none of these counts, unless calls are
// counted at their entry.
void check_calls(const Page &page, const CallsTruth &truth, const std::string &comm,
                 const CallsConfig &config = {});

}  // namespace harness
