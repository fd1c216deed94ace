#include "exporter/probes/torch/functions.h"

namespace gpusnoop::probes {

namespace {

// Sums of bytes are a signed `long` (l) up to PyTorch 2.0, and a `size_t` (m) from 2.1 on. PyTorch
// 1.8 reports no sums. Both kinds of integers are the same in a register.
constexpr TorchFunction functions[] = {
    {"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", TORCH_REPORTS_USAGE},
    {"_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE", TORCH_REPORTS_USAGE},
    {"_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE", TORCH_REPORTS_USAGE_ONLY},
    {"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE", TORCH_REPORTS_OUT_OF_MEMORY},
    {"_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE", TORCH_REPORTS_OUT_OF_MEMORY},
};

}  // namespace

std::span<const TorchFunction> torch_functions() {
    return functions;
}

}  // namespace gpusnoop::probes
