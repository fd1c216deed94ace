#include "exporter/probes/torch/devices.h"

#include <array>
#include <cstddef>
#include <string_view>

namespace gpusnoop::probes {

namespace {

// By c10::DeviceType (c10/core/DeviceType.h), of PyTorch 2. Before MTIA came, 19 was
// PrivateUse1. PyTorch for AMD GPUs calls them cuda, too.
constexpr std::array<std::string_view, 21> types = {
    "cpu",  "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",
    "fpga", "maia", "xla",    "vulkan", "metal",  "xpu",   "mps",
    "meta", "hpu",  "ve",     "lazy",   "ipu",    "mtia",  "privateuseone"};

}  // namespace

std::string name_of(const TorchDevice &device) {
    if (device.type < 0 || static_cast<std::size_t>(device.type) >= types.size()) {
        return "unknown";
    }
    std::string name(types.at(static_cast<std::size_t>(device.type)));
    return device.number < 0 ? name : name + ":" + std::to_string(device.number);
}

}  // namespace gpusnoop::probes
