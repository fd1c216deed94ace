// PyTorch's devices, by their names in it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace gpusnoop::probes {

struct TorchDevice {
    std::int8_t type = 0;    // c10::DeviceType
    std::int8_t number = 0;  // as the program numbers it; negative: the only one of its type

    auto operator<=>(const TorchDevice &) const = default;
};

// "cuda:0" or "cpu", as str(torch.device) gives it, but "privateuseone:0" also where the program
// has renamed that backend; "unknown" for a type of a later version.
[[nodiscard]] std::string name_of(const TorchDevice &device);

}  // namespace gpusnoop::probes
