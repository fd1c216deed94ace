#include "bench/call_cost/workloads.h"

#include <chrono>

namespace gpusnoop::bench {

namespace {

constexpr unsigned untimed_part = 8;  // of the calls

double time_calls(const Workload &workload, const Functions &functions, unsigned calls) {
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    for (unsigned i = 0; i < calls; i++) {
        workload.call(functions);
    }
    return std::chrono::duration<double, std::nano>(Clock::now() - began).count() / calls;
}

}  // namespace

std::vector<Workload> all_workloads() {
    return {
        {"cudaMemcpy",
         {"cudaMemcpy"},
         [](const Functions &f) {
             char from = 0;
             char to = 0;
             f.cuda_memcpy(&to, &from, 1, 1);
         }},
        {"cudaLaunchKernel, driver called inside",
         {"cudaLaunchKernel", "cuLaunchKernel"},
         [](const Functions &f) {
             f.cuda_launch_kernel(&f, {1, 1, 1}, {32, 1, 1}, nullptr, 0, nullptr);
         }},
        {"cuLaunchKernel",
         {"cuLaunchKernel"},
         [](const Functions &f) {
             char function = 0;
             f.cu_launch_kernel(&function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
         }},
        {"cudaMalloc and cudaFree, driver called inside",
         {"cudaMalloc", "cudaFree", "cuMemAlloc_v2", "cuMemFree_v2"},
         [](const Functions &f) {
             void *memory = nullptr;
             f.cuda_malloc(&memory, 64);
             f.cuda_free(memory);
         }},
    };
}

double nanoseconds_per_call(const Workload &workload, const Functions &functions, unsigned calls) {
    (void)time_calls(workload, functions, calls / untimed_part + 1);
    return time_calls(workload, functions, calls);
}

}  // namespace gpusnoop::bench
