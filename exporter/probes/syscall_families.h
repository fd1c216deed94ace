// The metric families of the syscall probe.
#pragma once

#include "exporter/series/family.h"
#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct SyscallFamilies {
    series::Family &calls;
    series::Family &errors;
    series::Family &durations;
};

SyscallFamilies make_syscall_families(series::FamilySet &set);

}  // namespace gpusnoop::probes
