// The probe `in_flight`: the calls of other probes that have begun and not returned.
#pragma once

#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

extern const ProbeKind in_flight_kind;

}  // namespace gpusnoop::probes
