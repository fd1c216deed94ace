// The counts of an exporter at one time: its page /api/v1/functions, which is not trusted.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/probes/functions/report/rates.h"
#include "exporter/processes/process_names.h"

namespace gpusnoop::top {

struct FunctionKey {
    std::string library;
    std::string function;
    std::uint32_t pid = 0;  // 0: of all processes
    auto operator<=>(const FunctionKey &) const = default;
};

struct Function {
    // Values that are not known for a function are null in the document.
    bool has_errors = false;
    bool has_slow_calls = false;
    probes::FunctionTotals totals;
    processes::ProcessNames process;  // if it has a pid
};

struct Sample {
    std::string version;
    double since = 0;    // seconds since 1970: when counting began
    double elapsed = 0;  // seconds since then
    std::uint64_t processes = 0;
    std::uint64_t left_out = 0;  // functions over the limit of the document
    std::vector<double> bounds;  // of the buckets, in seconds
    std::map<FunctionKey, Function> functions;
};

// Texts are unchanged. Errors say why the document is wrong; it may contain anything.
[[nodiscard]] Result<Sample> parse_sample(std::string_view json);

}  // namespace gpusnoop::top
