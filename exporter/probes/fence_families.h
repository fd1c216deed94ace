// The metric families of the fence probe.
#pragma once

#include <vector>

#include "exporter/probes/family_maker.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

struct FenceFamilies {
    series::Family events;
    series::Family waits;
    series::Family latencies;

    [[nodiscard]] std::vector<series::Family *> all();
};

FenceFamilies make_fence_families(const Budget &budget, bool pid_label);

}  // namespace gpusnoop::probes
