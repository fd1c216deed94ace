// The page against what the functions of libcalls.so.1 counted of themselves (tests/fakes/calls).
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
    // It has no exit that a probe can tell, so its calls are counted where they start.
    bool at_entry = false;
};

const std::vector<CallsFunction> &calls_functions();

// What was really done, of one function.
struct CallsCount {
    std::uint64_t entered = 0;
    std::uint64_t returned = 0;
    std::uint64_t left = 0;  // or still inside
    std::map<std::int64_t, std::uint64_t> errors;
    // The duration of a call that a probe measures lies between the one that the function measured
    // and the one that its caller did.
    std::uint64_t slow = 0;
    std::uint64_t slow_at_most = 0;
    std::uint64_t inner_ns = 0;
    std::uint64_t outer_ns = 0;

    CallsCount &operator+=(const CallsCount &other);
};

using CallsTruth = std::map<std::string, CallsCount>;  // by name

// The lines of the truth in the output of `calls`. Throws std::runtime_error for a line that has
// not all of it, and for a function that is not one.
CallsTruth parse_calls(const std::string &output);
CallsTruth operator+(CallsTruth one, const CallsTruth &other);

// The output without the numbers that depend on the time: the rest is the same for the same seed.
std::string without_times(const std::string &output);

// What the functions' calls are on the page, and of those that left by other ways than a return.
double counted_calls(const CallsTruth &truth, bool entry_only = false);
double left_calls(const CallsTruth &truth);

struct CallsConfig {
    std::string mode = "auto";
    bool entry_only = false;
    // Of all functions, unless it is empty. That of the library's own count is 50ms.
    std::string slow_threshold = "50ms";
    // How the functions with no exit to tell are configured: to be counted at entry, or not.
    bool say_at_entry = true;
    std::string endings = "auto";
};

// The start of a configuration in which only the groups that follow attach.
std::string only_groups(const std::string &mode);
// The whole configuration, with a group "calls" that has each of the functions, by its symbol.
std::string calls_config(const CallsConfig &config);

// The label `code` of this error of the function.
std::string calls_error_name(gpusnoop::probes::ErrorKind kind, std::int64_t code);

// Checks each function of the truth for the processes of this comm: calls, errors by code,
// durations and slow calls. A call that did not return is in none of them, unless calls are counted
// at entry.
void check_calls(const Page &page, const CallsTruth &truth, const std::string &comm,
                 const CallsConfig &config = {});

}  // namespace harness
