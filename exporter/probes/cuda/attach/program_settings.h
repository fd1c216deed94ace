// What the configuration changes of the CUDA probe's programs, before they are loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/maps/pins.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/frame/processes/cuda_shared.h"

struct cuda_bpf;

namespace gpusnoop::probes {

// Sizes and switches, except those of sampling and tracing.
void apply_settings(cuda_bpf &skeleton, const CudaConfig &config);

// Loads, with the program that reads Python's stacks, and returns 0 or the negative errno.
[[nodiscard]] int load_with_tail(cuda_bpf &skeleton);

// libbpf uses the pinned maps that exist, and makes and pins the others, both at load.
void pin_maps(cuda_bpf &skeleton, const ebpf::Pins &pins);

// A hash of everything that must be equal to share pins: the programs, the sizes of tables, the
// settings.
[[nodiscard]] std::string generation_of(ebpf::AttachMode mode, const CudaConfig &config);

// Shares maps with other probes: the table of GPU processes; that of followed ones and the calls of
// threads, if the configuration says `follow`; and the accounts of threads, if it says
// `keep_times`.
Result<> share_maps(const cuda_bpf &skeleton, const CudaConfig &config, CudaShared &shared);

// Tracing of single calls by the CUDA probe's programs, for `gpusnoop_exporter trace`.
struct CudaTracing {
    bool stacks = false;
    std::vector<std::uint32_t> pids;        // only these processes, TRACED_PIDS at most; or all
    std::vector<std::uint16_t> functions;   // only these, by number
    std::uint32_t ring_bytes = 32U << 20U;  // a power of two
};

// Before the skeleton is loaded. Null: no tracing, and the maps for it are not made.
void set_up_tracing(cuda_bpf &skeleton, const CudaTracing *tracing);

}  // namespace gpusnoop::probes
