// `trace functions`: each call of named functions.
#pragma once

#include "exporter/trace/trace.h"

namespace gpusnoop::trace {

extern const Kind functions_trace;

}  // namespace gpusnoop::trace
