// The calls in flight of all probes, each call once.
#pragma once

#include <vector>

#include "exporter/probes/frame/open_calls.h"

namespace gpusnoop::probes {

// Adds the calls of a probe. A call that two probes follow, as cuda and functions follow
// cudaStreamSynchronize, becomes one, with what either knows of it.
void join(OpenCalls &all, OpenCalls more);

// Adds to a call what another probe knows of the same call.
void merge(OpenCall &into, OpenCall other);

// The oldest first.
void sort_by_age(std::vector<OpenCall> &calls);

}  // namespace gpusnoop::probes
