// What the configuration changes of the CUDA probe's programs, before they are loaded.
#pragma once

#include <string>

#include "exporter/ebpf/attach/uprobe.h"
#include "exporter/ebpf/maps/pins.h"
#include "exporter/probes/cuda/settings.h"

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

}  // namespace gpusnoop::probes
