// What is called again and again.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/call_cost/library.h"

namespace gpusnoop::bench {

struct Workload {
    std::string name;
    std::vector<std::string_view> functions;  // that it calls, directly or not
    std::function<void(const Functions &)> call;
};

std::vector<Workload> all_workloads();

// About so many calls are timed in parts, after one part that is not. The median of the parts: in
// some of them somebody else had the CPU.
double nanoseconds_per_call(const Workload &workload, const Functions &functions, unsigned calls);

}  // namespace gpusnoop::bench
