// The probe `host_time`: where the time of the threads goes that launch work on a GPU.
#pragma once

#include <optional>
#include <string>

#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

extern const ProbeKind host_time_kind;

}  // namespace gpusnoop::probes
