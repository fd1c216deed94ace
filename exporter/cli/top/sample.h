// What an exporter has counted up to one time: its page /api/v1/functions, read with distrust.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/functions/report/rates.h"

namespace gpusnoop::top {

struct FunctionKey {
    std::string library;
    std::string function;
    auto operator<=>(const FunctionKey &) const = default;
};

struct Function {
    // What is not known of a function is missing in the document.
    bool has_errors = false;
    bool has_slow_calls = false;
    probes::FunctionTotals totals;
};

struct Sample {
    std::string version;
    double since = 0;    // seconds since 1970: when the counting began
    double elapsed = 0;  // seconds since then
    std::uint64_t processes = 0;
    std::uint64_t left_out = 0;  // functions that did not fit
    std::vector<double> bounds;  // of the buckets, in seconds
    std::map<FunctionKey, Function> functions;
};

// Texts are as they came. Errors say what is wrong with the document; it may be anything.
[[nodiscard]] Result<Sample> parse_sample(std::string_view json);

}  // namespace gpusnoop::top
