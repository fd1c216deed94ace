// Tracing of single calls by the CUDA probe's programs, for `gpusnoop_exporter trace`.
#pragma once

#include <cstdint>
#include <vector>

struct cuda_bpf;

namespace gpusnoop::probes {

struct CudaTracing {
    bool stacks = false;
    std::vector<std::uint32_t> pids;        // only these processes, TRACED_PIDS at most; or all
    std::vector<std::uint16_t> functions;   // only these, by number
    std::uint32_t ring_bytes = 32U << 20U;  // a power of two
};

// Before the skeleton is loaded. Null: no tracing, and the maps for it are not made.
void set_up_tracing(cuda_bpf &skeleton, const CudaTracing *tracing);

}  // namespace gpusnoop::probes
