#include "exporter/probes/frame/processes/cuda_shared.h"

namespace gpusnoop::probes {

Result<> CudaShared::share_calls_with(CudaShared &other) const {
    other.gpu_processes = {.processes = duplicate(gpu_processes.processes.get()),
                           .filter = duplicate(gpu_processes.filter.get())};
    bool is_copied = other.gpu_processes.processes && other.gpu_processes.filter;
    if (is_copied && function_name != nullptr && times.threads) {
        other.function_name = function_name;
        other.times.threads = duplicate(times.threads.get());
        is_copied = static_cast<bool>(other.times.threads);
    }
    return is_copied ? Result<>() : fail_errno("duplicate a descriptor");
}

}  // namespace gpusnoop::probes
