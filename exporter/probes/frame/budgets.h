// Which families have a budget of label sets.
#pragma once

#include <string>
#include <vector>

#include "exporter/series/family_set.h"

namespace gpusnoop::probes {

struct FamiliesOfProbe {
    std::string title;
    // All families of the probe, empty, in the page's order. Those that always have the label pid
    // are a set of their own.
    std::vector<series::FamilySet> sets;
};

std::vector<FamiliesOfProbe> budgeted();

// Their full names, for the configuration to check `series.budgets` against.
std::vector<std::string> budgeted_families();

}  // namespace gpusnoop::probes
