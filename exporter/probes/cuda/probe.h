// The CUDA probe: calls of the CUDA runtime in every process.
#pragma once

#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

// Shares its table of processes with the targets.
extern const ProbeKind cuda_kind;

}  // namespace gpusnoop::probes
