// `trace cuda`: each outermost CUDA call.
#pragma once

#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind cuda_trace;

}  // namespace gpusnoop::trace
