// Which families have a budget of label sets.
#pragma once

#include <string>
#include <vector>

#include "exporter/series/family.h"

namespace gpusnoop::probes {

struct FamiliesOfProbe {
    std::string title;
    std::vector<series::Family> families;  // one of each, empty, in the page's order
};

std::vector<FamiliesOfProbe> budgeted();

// Their full names, for the configuration to check `series.budgets` against.
std::vector<std::string> budgeted_families();

}  // namespace gpusnoop::probes
