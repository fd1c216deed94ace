// The calls that are repeated.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/call_cost/library.h"

namespace gpusnoop::bench {

struct Workload {
    std::string name;
    std::vector<std::string_view> functions;  // called, directly or not
    std::function<void(const Functions &)> call;
};

std::vector<Workload> all_workloads();

// The time of one call, of so many after a few untimed ones, which fill the caches.
double nanoseconds_per_call(const Workload &workload, const Functions &functions, unsigned calls);

}  // namespace gpusnoop::bench
