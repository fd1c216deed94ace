// The probe `torch`: the memory that tensors hold, as PyTorch's allocators report it.
#pragma once

#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

extern const ProbeKind torch_kind;

}  // namespace gpusnoop::probes
