// The metric families of the syscall probe.
#pragma once

#include <vector>

#include "exporter/probes/family_maker.h"
#include "exporter/series/family.h"

namespace gpusnoop::probes {

struct SyscallFamilies {
    series::Family calls;
    series::Family errors;
    series::Family durations;

    [[nodiscard]] std::vector<series::Family *> all();
};

SyscallFamilies make_syscall_families(const Budget &budget, bool pid_label);

}  // namespace gpusnoop::probes
