// What the CUDA probe knows of GPU processes, for the probes of the host group.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "exporter/probes/frame/processes/process_identity.h"

namespace gpusnoop::probes {

// The symbol of the function with this number in records; empty: there is none.
using CudaFunctionName = std::string_view (*)(std::uint16_t number);

// What a GPU process held when it ended, or became another program.
struct GpuProcessEnd {
    ProcessKey key;  // as the CUDA probe has it
    std::chrono::nanoseconds ended{};
    std::map<std::string, std::uint64_t> device_bytes;  // by the label `gpu`
    bool is_complete = false;                           // false: it may have held more
};

}  // namespace gpusnoop::probes
