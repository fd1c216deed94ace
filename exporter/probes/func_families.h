// The metric families of FuncSnoop.
#pragma once

#include <cstdint>
#include <vector>

#include "exporter/config/functions.h"
#include "exporter/probes/family_maker.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

struct FuncFamilies {
    series::Family calls;
    series::Family errors;
    series::Family slow_calls;
    series::Family nccl_operations;
    series::Family nccl_bytes;

    [[nodiscard]] std::vector<series::Family *> all();
};

FuncFamilies make_func_families(const Budget &budget, bool pid_label);

// The function's buckets, in nanoseconds.
std::vector<std::uint64_t> func_bounds(const config::FunctionOptions &options);

// One for each list of buckets that functions have; on the page they are one family. `bounds` in
// nanoseconds.
series::Family make_func_durations(const Budget &budget, bool pid_label,
                                   std::vector<std::uint64_t> bounds);

// Of the last whole minute: filled anew for each report.
struct FuncGauges {
    series::Family min;
    series::Family max;

    [[nodiscard]] std::vector<series::Family *> all();
};

FuncGauges make_func_gauges(const Budget &budget, bool pid_label);

}  // namespace gpusnoop::probes
