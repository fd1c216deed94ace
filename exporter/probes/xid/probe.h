// Errors of GPUs (Xid) and of NVSwitches (SXid) that the NVIDIA driver reports.
#pragma once

#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

extern const ProbeKind xid_kind;

}  // namespace gpusnoop::probes
