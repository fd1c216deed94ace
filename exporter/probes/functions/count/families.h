// The metric families of the functions probe.
#pragma once

#include <cstdint>
#include <vector>

#include "exporter/probes/functions/setting_groups.h"
#include "exporter/series/family.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct FunctionFamilies {
    series::Family &calls;
    series::Family &errors;
    series::Family &slow_calls;
    series::Family &nccl_operations;
    series::Family &nccl_bytes;
    series::Family &unobserved;
    series::Family &overhead;
};

FunctionFamilies make_function_families(series::FamilySet &set);

// The function's buckets, in nanoseconds.
std::vector<std::uint64_t> call_bounds(const FunctionOptions &options);

// One family for each distinct list of buckets; on the page they are one family. `bounds` in
// nanoseconds.
series::Family &add_function_durations(series::FamilySet &set, std::vector<std::uint64_t> bounds);

// The place of `communicator` among the labels of NCCL's operations.
inline constexpr std::size_t communicator_label = 4;

// Extremes of the last whole minute: rebuilt for each report.
struct FunctionGauges {
    series::Family &min;
    series::Family &max;
};

FunctionGauges make_function_gauges(series::FamilySet &set);

// How far each rank has come, by process: rebuilt for each report.
struct NcclGauges {
    series::Family &sequence;
    series::Family &last_operation;
};

NcclGauges make_nccl_gauges(series::FamilySet &set);

}  // namespace gpusnoop::probes
