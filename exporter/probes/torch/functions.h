// The functions of libc10 that PyTorch's allocators report to.
#pragma once

#include <span>
#include <string_view>

#include "bpf/torch.h"

namespace gpusnoop::probes {

struct TorchFunction {
    std::string_view symbol;
    torch_function cookie;
};

// Of all versions from PyTorch 1.8 on. A library has one or two of them.
[[nodiscard]] std::span<const TorchFunction> torch_functions();

}  // namespace gpusnoop::probes
