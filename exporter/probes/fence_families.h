// The metric families of the fence probe.
#pragma once

#include "exporter/series/family.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct FenceFamilies {
    series::Family &events;
    series::Family &waits;
    series::Family &latencies;
};

FenceFamilies make_fence_families(series::FamilySet &set);

}  // namespace gpusnoop::probes
